// Splits a response into its reasoning and the policy's action: by tags in the text, or by their ids among the tokens.
import { readFile } from 'node:fs/promises';
import { ArgumentError, FileError } from '../../checks/errors.js';
import { systemProblem } from '../stores/system-problem.js';
import { bufferOver, type LoggedText } from './logged-text.js';

/** `all`: the whole response is reasoning. Else the tags around it. */
export type ReasoningTags = 'all' | readonly [open: string, close: string];

export const THINK: ReasoningTags = ['<think>', '</think>'];

/** A response, as its log has it: text, or the bytes of it. */
export interface SplitText<T extends LoggedText = LoggedText> {
  readonly reasoning: T;
  /** Absent if there was no closing tag. */
  readonly action?: string;
  /** The reasoning was opened and never closed. */
  readonly isCut: boolean;
}

/**
 * What splits responses. With a closing tag: what follows the first opening one (or from the start) up to the first
 * closing one. With only an opening one: what follows it. Without either: all.
 */
export function splitter(tags: ReasoningTags): (output: LoggedText) => SplitText {
  if (tags === 'all') return (output) => ({ reasoning: output, isCut: false });
  const inBytes = tags.map((tag) => Buffer.from(tag)) as [Buffer, Buffer];
  return (output) => {
    if (typeof output === 'string') {
      const cut = (begin: number, end?: number) => output.slice(begin, end);
      return splitAt(output, tags, cut, cut);
    }
    const bytes = bufferOver(output);
    const view = (begin: number, end = bytes.length) => bytes.subarray(begin, end);
    return splitAt(bytes, inBytes, view, (begin) => bytes.toString('utf8', begin));
  };
}

function splitAt<T extends string | Buffer>(
  output: T,
  [open, close]: readonly [T, T],
  part: (begin: number, end?: number) => T,
  textFrom: (begin: number) => string,
): SplitText<T> {
  const opened = output.indexOf(open as string);
  const closed = output.indexOf(close as string);
  if (closed < 0) {
    return opened < 0 ? { reasoning: output, isCut: false } : { reasoning: part(opened + open.length), isCut: true };
  }
  const begin = opened >= 0 && opened < closed ? opened + open.length : 0;
  return { reasoning: part(begin, closed), action: actionIn(textFrom(closed + close.length)), isCut: false };
}

/** Without surrounding space; inside <answer>…</answer> where there is such a pair. */
export function actionIn(rest: string): string {
  const opened = rest.indexOf('<answer>');
  const closed = opened < 0 ? -1 : rest.indexOf('</answer>', opened);
  return (closed < 0 ? rest : rest.slice(opened + '<answer>'.length, closed)).trim();
}

/** The same of token ids. `reasoning` is a view into `tokens`. */
export function splitTokens(
  tokens: Int32Array,
  ids: readonly [open: number, close: number] | undefined,
): { readonly reasoning: Int32Array; readonly isCut: boolean } {
  if (ids === undefined) return { reasoning: tokens, isCut: false };
  const opened = tokens.indexOf(ids[0]);
  const closed = tokens.indexOf(ids[1]);
  if (closed < 0) return { reasoning: tokens.subarray(opened + 1), isCut: opened >= 0 };
  return { reasoning: tokens.subarray(opened >= 0 && opened < closed ? opened + 1 : 0, closed), isCut: false };
}

/**
 * Ids of the tags in a tokenizer.json of Hugging Face.
 * @throws FileError when it cannot be read, or has no token of a tag's name
 */
export async function tagIds(path: string, tags: ReasoningTags): Promise<readonly [number, number] | undefined> {
  if (tags === 'all') return undefined;
  const vocabulary = await readVocabulary(path);
  return tags.map((tag) => {
    const id = vocabulary(tag);
    if (id !== undefined) return id;
    throw new FileError(
      { path },
      `no token is ${tag}: give the ids of the tags (tagTokens), or other tags (reasoning)`,
    );
  }) as [number, number];
}

async function readVocabulary(path: string): Promise<(token: string) => number | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new FileError({ path }, systemProblem(error), { cause: error });
  }
  try {
    const { added_tokens: added = [], model } = JSON.parse(text) as {
      added_tokens?: { content: string; id: number }[];
      model?: { vocab?: Record<string, number> };
    };
    const known = new Map(added.map(({ content, id }) => [content, id]));
    return (token) =>
      known.get(token) ?? (Object.hasOwn(model?.vocab ?? {}, token) ? model?.vocab?.[token] : undefined);
  } catch (error) {
    throw new FileError({ path }, 'is no tokenizer.json: expected JSON with added_tokens and model.vocab', {
      cause: error,
    });
  }
}

/** @throws {ArgumentError} */
export function checkTags(tags: unknown, argument: string): asserts tags is ReasoningTags {
  if (tags === 'all') return;
  const isPair = Array.isArray(tags) && tags.length === 2 && tags.every((tag) => typeof tag === 'string' && tag !== '');
  if (!isPair) throw new ArgumentError(argument, "expected 'all', or a pair of tags such as ['<think>', '</think>']");
}
