// All tensors of a step file but its scores, read at once in few large reads.

import type { StepContainer } from '../formats/container.js';
import type { ByteSource } from '../stores/byte-source.js';
import type { ReadStepOptions } from './read-step-options.js';
import { STEP_TENSORS, type StepTensorName } from './step-layout.js';
import { allocated, type ReadTensor } from './tensor-memory.js';

/** Tensors below this are read together with their neighbours; larger ones straight into their own memory. */
const SMALL_TENSOR_BYTES = 2 ** 20;
/** Bytes that a common read may skip rather than end. */
const SKIP_BYTES = 64 * 2 ** 10;
const COMMON_READ_BYTES = 8 * 2 ** 20;

const SCORE_TENSORS: ReadonlySet<string> = new Set(['cross_logprobs', 'cross_logprob_sums']);
/** Tensors that the engine computes on, beside the scores. */
const ENGINE_TENSORS: ReadonlySet<string> = new Set(['token_entropy', 'ablated_logprobs', 'action_logprobs']);

/** Reads all tensors of a step but the scores. */
export async function readTensors(
  source: ByteSource,
  container: StepContainer,
  { allocate, unread, signal }: ReadStepOptions,
): Promise<Map<StepTensorName, ReadTensor>> {
  const passedOver: ReadonlySet<string> = unread ?? new Set();
  const wanted = STEP_TENSORS.filter((name) => !SCORE_TENSORS.has(name) && !passedOver.has(name)).flatMap((name) => {
    const entry = container.tensors.get(name);
    return entry === undefined ? [] : [{ name, entry }];
  });
  wanted.sort((a, b) => a.entry.begin - b.entry.begin || a.entry.end - b.entry.end);
  const tensors = new Map<StepTensorName, ReadTensor>();
  for (const { name, entry } of wanted) {
    const allocator = ENGINE_TENSORS.has(name) ? allocate : plainMemory;
    const memory = allocated(source.path, entry.end - entry.begin, name, allocator);
    tensors.set(name, { entry, memory });
  }
  let small: ReadTensor[] = [];
  const readSmall = async () => {
    await readTogether(source, container.first, small, signal);
    small = [];
  };
  for (const { name, entry } of wanted) {
    const tensor = tensors.get(name) as ReadTensor;
    const bytes = entry.end - entry.begin;
    if (bytes > SMALL_TENSOR_BYTES) {
      await source.read(new Uint8Array(tensor.memory, 0, bytes), entry.begin, { tensor: name, signal });
      continue;
    }
    const first = small[0]?.entry.begin ?? entry.begin;
    const last = small.at(-1)?.entry.end ?? entry.begin;
    if (entry.begin - last > SKIP_BYTES || entry.end - first > COMMON_READ_BYTES) await readSmall();
    small.push(tensor);
  }
  await readSmall();
  return tensors;
}

/**
 * One read for tensors that lie near each other, in file order, or none where they came with the header; each is then
 * copied to memory of its own alignment.
 */
async function readTogether(
  source: ByteSource,
  first: Uint8Array | undefined,
  tensors: readonly ReadTensor[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const begin = tensors[0]?.entry.begin;
  const last = tensors.at(-1)?.entry;
  if (begin === undefined || last === undefined) return;
  const isThere = first !== undefined && last.end <= first.length;
  const bytes = isThere ? first.subarray(begin, last.end) : Buffer.allocUnsafe(last.end - begin);
  if (!isThere) await source.read(bytes, begin, { tensor: last.name, signal });
  for (const { entry, memory } of tensors) {
    new Uint8Array(memory).set(bytes.subarray(entry.begin - begin, entry.end - begin));
  }
}

function plainMemory(bytes: number): ArrayBuffer {
  return new ArrayBuffer(bytes);
}
