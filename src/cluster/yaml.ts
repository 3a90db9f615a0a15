// Writes plain values as YAML that no reader takes for something else (no, 1e3, 0x1f, ~): strings in double quotes, or
// in blocks if they have lines.
import { createRequire } from 'node:module';
import { moduleUrl } from '../checks/package-root.js';

export type YamlValue =
  | string
  | number
  | boolean
  | readonly YamlValue[]
  | { readonly [key: string]: YamlValue | undefined };

/** Text that a block keeps as it is: printable, the first line not beginning with a space, no empty ones at the end. */
const BLOCK = /^[\x21-\x7e][\n\x20-\x7e\u00a0-\u2027\u202a-\ud7ff]*(?<!\n)\n$/;
/** What YAML 1.1 wants escaped in quotes and JSON, whose quoting the library takes, does not: line ends among them. */
const UNSAFE = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;

/** kubectl reads YAML 1.1, which takes more words for something else than strings: keys among them are quoted. */
export function yamlDocuments(values: readonly YamlValue[]): string {
  // Loaded if jobs are written: every other command would wait for it.
  const { Document, visit } = createRequire(moduleUrl)('yaml') as typeof import('yaml');
  const documents = values.map((value) => {
    const document = new Document(value, { version: '1.1', aliasDuplicateObjects: false });
    visit(document, {
      Scalar: (key, node) => {
        if (key === 'key' || typeof node.value !== 'string') return;
        node.type = BLOCK.test(node.value) ? 'BLOCK_LITERAL' : 'QUOTE_DOUBLE';
      },
    });
    return `---\n${document.toString({ lineWidth: 0, doubleQuotedMinMultiLineLength: Number.POSITIVE_INFINITY })}`;
  });
  return documents.join('').replace(UNSAFE, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
