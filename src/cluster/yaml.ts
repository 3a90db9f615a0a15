// Plain values -> YAML. Strings are always in double quotes, or blocks where they have lines: nothing that a reader of
// YAML could take for something else (no, 1e3, 0x1f, ~).

export type YamlValue =
  | string
  | number
  | boolean
  | readonly YamlValue[]
  | { readonly [key: string]: YamlValue | undefined };

export function yamlDocuments(values: readonly YamlValue[]): string {
  return values.map((value) => `---\n${node(value, 0)}\n`).join('');
}

/** Keys that a reader takes as they are. */
const PLAIN_KEY = /^[A-Za-z][A-Za-z0-9_./-]*$/;
/** Words that YAML 1.1 reads as something else than a string. */
const RESERVED = /^(y|n|yes|no|on|off|true|false|null)$/i;
/** Lines that a block keeps as they are: printable, the first not beginning with a space, no empty ones at the end. */
const BLOCK = /^[\x21-\x7e][\n\x20-\x7e\u00a0-\u2027\u202a-\ud7ff]*(?<!\n)\n$/;

function node(value: YamlValue, depth: number): string {
  const pad = '  '.repeat(depth);
  if (typeof value === 'string') return BLOCK.test(value) ? block(value, pad) : quoted(value);
  if (typeof value !== 'object') return String(value);
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    // The first key of an object stands behind the dash, the others below it.
    return value.map((item) => `${pad}- ${node(item, depth + 1).trimStart()}`).join('\n');
  }
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  if (entries.length === 0) return '{}';
  return entries
    .map(([key, item]) => {
      const text = node(item as YamlValue, depth + 1);
      const nested = typeof item === 'object' && text !== '[]' && text !== '{}';
      return `${pad}${PLAIN_KEY.test(key) && !RESERVED.test(key) ? key : quoted(key)}:${nested ? '\n' : ' '}${text}`;
    })
    .join('\n');
}

function block(text: string, pad: string): string {
  const lines = text.slice(0, -1).split('\n');
  return `|\n${lines.map((line) => (line === '' ? '' : `${pad}${line}`)).join('\n')}`;
}

/** JSON's strings are strings of YAML, but for characters that YAML wants escaped. */
function quoted(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
