// Limits the size to which a compressed step may unpack.
import { FileError } from '../../checks/errors.js';
import type { ReadStepOptions } from '../steps/read-step-options.js';
import { STEP_TENSORS, type StepLayout } from '../steps/step-layout.js';
import type { StepContainer } from './container.js';
import type { TensorEntry } from './safetensors.js';

/** What is held at once may be this large, or PACKED_LIMIT times the compressed file where that is more. */
const UNPACKED_LIMIT = 2 ** 30;
export const PACKED_LIMIT = 64;

/** Deflate packs no tighter than 258 bytes into 2 bits. */
export const MOST_DEFLATED = 1032;

/**
 * Refuses what is made to unpack without end: more bytes than the compressed ones can stand for, and tensors that are
 * held whole (all but the scores, which are held one prompt at a time) beyond any step's.
 * @throws FileError
 */
export function checkDecompressed(
  path: string,
  tensors: ReadonlyMap<string, TensorEntry>,
  bytes: number,
  packedBytes: number,
  most: number,
): void {
  if (bytes > packedBytes * most) {
    throw new FileError({ path }, `${packedBytes} compressed bytes cannot hold the ${bytes} that the header promises`);
  }
  const limit = Math.max(UNPACKED_LIMIT, PACKED_LIMIT * packedBytes);
  let held = 0;
  for (const name of STEP_TENSORS) {
    const entry = tensors.get(name);
    if (entry === undefined) continue;
    const whole = entry.end - entry.begin;
    held += name === 'cross_logprobs' ? whole / Math.max(1, entry.shape[0] ?? 1) : whole;
    if (held <= limit) continue;
    const problem = `with it ${held} bytes are to be held at once, unpacked from ${packedBytes}: more than the ${limit} that are taken from a compressed file. If that is meant, decompress it first`;
    throw new FileError({ path, tensor: name }, problem);
  }
}

/** Bytes a pair of row and prompt, and a row: what is made of them. */
const PAIR_BYTES = 24;
const ROW_BYTES = 64;

/** A file smaller than a sixteenth of the memory that it takes is made to fill memory, packed or not. */
const PLAIN_LIMIT = 16;

/**
 * Refuses a step that takes more than there is room for, where its file does not.
 * @throws FileError
 */
export function checkRoom(
  path: string,
  { tensors, bytes, storedBytes }: StepContainer,
  { prompts, rows }: StepLayout,
  { maxMemory, unread }: ReadStepOptions,
): void {
  if (maxMemory === undefined) return;
  const passedOver: ReadonlySet<string> = unread ?? new Set();
  let held = rows * (prompts * PAIR_BYTES + ROW_BYTES);
  for (const name of STEP_TENSORS) {
    const entry = tensors.get(name);
    if (entry === undefined || passedOver.has(name)) continue;
    const whole = entry.end - entry.begin;
    // Of scores two prompts: one is read while the other is summed.
    held += name === 'cross_logprobs' ? Math.min(whole, (2 * whole) / Math.max(1, prompts)) : whole;
  }
  const isPacked = bytes > storedBytes;
  if (held <= maxMemory || (!isPacked && held <= PLAIN_LIMIT * storedBytes)) return;
  const problem = `a file of ${storedBytes} bytes whose step takes ${held}, --max-memory has room for ${maxMemory}: give more, or write fewer rows and prompts a step`;
  throw new FileError({ path }, problem);
}
