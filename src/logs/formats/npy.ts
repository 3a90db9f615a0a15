// Reads a step from single .npy arrays: scores in NAME.npy, other tensors in NAME.lengths.npy, NAME.group.npy and so
// on, metadata in NAME.json. Sidecars are opened only when read, so that a step holds one open file.

import { isUtf8 } from 'node:buffer';
import { FileError } from '../../checks/errors.js';
import { printable } from '../../checks/words.js';
import { isTensorName, type NamedArray, readArray, tensorEntry, withStepNumber } from '../steps/array-step.js';
import { headerDigest } from '../steps/step-digest.js';
import { STEP_TENSORS } from '../steps/step-layout.js';
import type { ByteSource, ReadOptions } from '../stores/byte-source.js';
import { ConcatenatedSource } from '../stores/concatenated-source.js';
import { openBytes, openIfThere } from '../stores/store.js';
import type { StepContainer } from './container.js';
import { JsonScanner } from './json-scanner.js';
import type { TensorEntry } from './safetensors.js';

const ENDING = '.npy';
const SCORE_NAMES: ReadonlySet<string> = new Set(['cross_logprobs', 'cross_logprob_sums']);

/** What a name of an .npy file says: `sidecar` is the tensor that it has beside another file's scores. */
export function npyName(name: string): { stem: string; tensor: string | undefined; sidecar: boolean } {
  const stem = name.slice(0, -ENDING.length);
  const dot = stem.lastIndexOf('.');
  const tensor = stem.slice(dot + 1);
  if (dot <= 0 || !isTensorName(tensor)) return { stem, tensor: undefined, sidecar: false };
  return { stem: stem.slice(0, dot), tensor, sidecar: !SCORE_NAMES.has(tensor) };
}

/**
 * @param path of the scores: NAME.npy, with 3 axes or 2, or NAME.cross_logprobs.npy, NAME.cross_logprob_sums.npy
 * @throws FileError naming the file among them that cannot be used
 */
export async function openNpy(path: string, { signal }: ReadOptions): Promise<StepContainer> {
  const { stem, tensor, sidecar } = npyName(path);
  if (sidecar) throw new FileError({ path }, `this is the sidecar "${tensor}" of a step: name the array of its scores`);
  const base = await openBytes(path, { signal });
  const source = new ConcatenatedSource(base);
  try {
    const scores = await readArray(base, tensor ?? 'cross_logprobs', 0, base.bytes, { signal });
    const arrays = new Map<string, NamedArray>([[tensor ?? scoreName(path, scores), scores]]);
    const digests: (Buffer | string)[] = [scores.raw];
    let bytes = base.bytes;
    for (const name of STEP_TENSORS) {
      const found = await addSidecar(source, `${stem}.${name}${ENDING}`, path, name, { signal });
      if (found === undefined) continue;
      if (arrays.has(name)) {
        const problem = `${printable(stem)}.${name}${ENDING} has the same tensor: keep one of the two files`;
        throw new FileError({ path, tensor: name }, problem);
      }
      arrays.set(name, found.array);
      digests.push(found.array.raw, found.stamp);
      bytes += found.bytes;
    }
    const described = await readDescription(`${stem}.json`, { signal });
    digests.push(described.raw);
    const tensors = new Map<string, TensorEntry>();
    for (const [name, array] of arrays) tensors.set(name, tensorEntry(source, name, array, described.metadata));
    return {
      source,
      tensors,
      metadata: withStepNumber(path, described.metadata, `${stem}.json`),
      bytes,
      storedBytes: bytes,
      digest: headerDigest(...digests),
      // Only the scores are read again.
      reopen: () => openBytes(path, { expected: base.revision }),
    };
  } catch (error) {
    await source.close();
    throw error;
  }
}

function scoreName(path: string, { header }: NamedArray): string {
  if (header.shape.length === 3) return 'cross_logprobs';
  if (header.shape.length === 2) return 'cross_logprob_sums';
  const problem = `shape (${header.shape.join(', ')}), expected log-probs of shape (prompts, rows, tokens) or their sums of shape (rows, prompts)`;
  throw new FileError({ path, offset: 0 }, problem);
}

/** Undefined if there is none. */
async function addSidecar(
  joined: ConcatenatedSource,
  path: string,
  main: string,
  name: string,
  options: ReadOptions,
): Promise<{ array: NamedArray; stamp: string; bytes: number } | undefined> {
  if (path === main) return undefined;
  const source = await openIfThere(path, options);
  if (source === undefined) return undefined;
  try {
    const { bytes, revision, stamp } = source;
    const array = await readArray(source, name, 0, bytes, options);
    const begin = joined.add({ path, bytes, open: () => openBytes(path, { expected: revision }) });
    return { array: { ...array, begin }, stamp, bytes };
  } finally {
    await source.close();
  }
}

/** Longest description taken. */
const MAX_JSON_BYTES = 2 ** 20;

/** Strings and numbers of NAME.json, numbers as they are written. */
async function readDescription(
  path: string,
  options: ReadOptions,
): Promise<{ metadata: ReadonlyMap<string, string>; raw: Buffer }> {
  const source = await openIfThere(path, options);
  if (source === undefined) return { metadata: new Map(), raw: Buffer.alloc(0) };
  try {
    return await parseDescription(source, options);
  } finally {
    await source.close();
  }
}

async function parseDescription(source: ByteSource, { signal }: ReadOptions) {
  const { path, bytes } = source;
  const fail = (offset: number, problem: string): never => {
    throw new FileError({ path, offset }, problem);
  };
  if (bytes > MAX_JSON_BYTES) fail(0, `${bytes} bytes of metadata, more than the ${MAX_JSON_BYTES} that are taken`);
  const raw = Buffer.allocUnsafe(bytes);
  await source.read(raw, 0, { signal });
  if (!isUtf8(raw)) fail(0, 'the metadata are not UTF-8');
  const scanner = new JsonScanner(raw, fail);
  const metadata = new Map<string, string>();
  scanner.object('the metadata', (key, at) => {
    if (metadata.has(key)) fail(at, `the key ${printable(key)} comes twice`);
    metadata.set(key, scanner.stringOrNumber(`the value of ${printable(key)}`));
  });
  scanner.end();
  return { metadata, raw };
}
