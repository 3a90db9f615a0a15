// Tokenizes texts with a tokenizer.json of Hugging Face, for logs that have no ids.
import { readFile, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { FileError } from '../checks/errors.js';
import { systemProblem } from '../logs/stores/system-problem.js';

/** Token ids of texts, as a policy has them. */
export interface TextTokenizer {
  /** Name of the model's folder. */
  readonly name: string;
  /** Token ids of a prompt, after what the tokenizer puts before every text, such as <s>. */
  prompt(text: string): Int32Array;
  /** Token ids of a text that continues from there. */
  response(text: string): Int32Array;
}

/**
 * Opens a tokenizer of Hugging Face.
 * @param path of a tokenizer.json, or of the model's folder; a tokenizer_config.json beside it is read, too
 * @throws {FileError} when there is none, or it is of a kind that cannot be read
 */
export async function openTokenizer(path: string): Promise<TextTokenizer> {
  const isFolder = await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
  const file = isFolder ? join(path, 'tokenizer.json') : path;
  const described = await readJson(file);
  const config = await readJson(join(dirname(file), 'tokenizer_config.json')).catch(() => ({}));
  // Loaded if it is needed: most logs that are scored have token ids.
  const { Tokenizer } = await import('@huggingface/tokenizers');
  try {
    const tokenizer = new Tokenizer(described, config);
    const idsOf = (text: string, special = false) => tokenizer.encode(text, { add_special_tokens: special }).ids;
    // What closes every text is left out: a response follows.
    const before = idsOf('a', true);
    before.length = Math.max(0, before.indexOf(idsOf('a')[0] as number));
    return {
      name: basename(dirname(resolve(file))),
      prompt: (text) => Int32Array.from([...before, ...idsOf(text)]),
      response: (text) => Int32Array.from(idsOf(text)),
    };
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new FileError({ path: file }, `is no tokenizer that can be read here: ${problem}`, { cause: error });
  }
}

async function readJson(path: string): Promise<object> {
  try {
    const found: unknown = JSON.parse(await readFile(path, 'utf8'));
    if (typeof found === 'object' && found !== null) return found;
  } catch (error) {
    const problem = error instanceof SyntaxError ? 'is no JSON' : systemProblem(error);
    throw new FileError({ path }, `${problem}: expected a tokenizer.json, or a folder that has one`, { cause: error });
  }
  throw new FileError({ path }, 'is no tokenizer.json');
}
