// Plans the size of blocks, and the bytes that steps may hold while they are measured, from the memory limit.
import { DEFAULT_MEMORY } from '../../logs/rollouts/log-options.js';
import type { StepFile } from './step-source.js';

export interface MemoryPlan {
  /** Of scores to hold of a step at a time. */
  readonly blockBytes: number;
  /** Of all steps that are being measured; a single one may need more. */
  readonly capacity: number;
}

/** Node, the engine and what they have loaded, before the first step. */
const PROCESS_BYTES = 120e6;

const MOST_BLOCK_BYTES = 16 * 2 ** 20;
/** Smaller ones cost more than they save: each is a read and a call of the engine. */
const LEAST_BLOCK_BYTES = 2 ** 20;
/** Four steps at a time, one of which has its block read while the one before is summed. */
const BLOCKS = 8;

export function memoryPlan(given: {
  readonly maxMemory?: number | undefined;
  readonly blockBytes?: number | undefined;
}): MemoryPlan {
  const capacity = Math.max(0, (given.maxMemory ?? DEFAULT_MEMORY) - PROCESS_BYTES);
  const fitting = Math.min(MOST_BLOCK_BYTES, Math.max(LEAST_BLOCK_BYTES, capacity / BLOCKS));
  return { capacity, blockBytes: given.blockBytes ?? Math.floor(fitting) };
}

/** What reading a rollout log may take: what is packed unpacks to no more. */
export function logMemory({ maxMemory = DEFAULT_MEMORY }: { readonly maxMemory?: number | undefined }): number {
  return maxMemory;
}

/** Bytes a pair of row and prompt: its sum, and what the metrics make of it. */
const PAIR_BYTES = 24;
/** Bytes a row: lengths, ids, rewards and the rest. */
const ROW_BYTES = 256;

/** A log's texts are held as they are in the file, as strings and as the engine's. */
const LOG_TIMES = 6;

/** Bytes that a step holds while it is measured, about: blocks, the sums [R, P], and a few values a row. */
export function bytesHeld({ bytes, prompts, rows, isLog }: StepFile, { blockBytes }: MemoryPlan): number {
  if (isLog) return LOG_TIMES * bytes;
  // Whole prompts at a time, at least one.
  const block = Math.min(bytes, Math.max(blockBytes, bytes / Math.max(1, prompts)));
  return 2 * block + rows * (prompts * PAIR_BYTES + ROW_BYTES);
}
