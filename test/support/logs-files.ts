// Files for the tests of src/logs: hand-made safetensors bytes, independent of the writer under test.
import { writeFile } from 'node:fs/promises';
import { FileError } from '../../src/checks/errors.js';

export interface RawTensor {
  dtype: string;
  shape: number[];
  data: ArrayBufferView;
}

/** Length, header and data, whatever they hold. */
export function container(header: unknown, data: Uint8Array = new Uint8Array(0)): Buffer {
  const json = typeof header === 'string' ? Buffer.from(header) : Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, data]);
}

export function fileOf(tensors: Record<string, RawTensor>, metadata: Record<string, string> = { step: '3' }): Buffer {
  const header: Record<string, unknown> = { __metadata__: metadata };
  const pieces: Buffer[] = [];
  let begin = 0;
  for (const [name, { dtype, shape, data }] of Object.entries(tensors)) {
    const end = begin + data.byteLength;
    header[name] = { dtype, shape, data_offsets: [begin, end] };
    pieces.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    begin = end;
  }
  return container(header, Buffer.concat(pieces));
}

/** P = 2, R = 4, T = 3. Score (p, r, t) is −(100·p + 10·r + t). */
export function smallStep(): Record<string, RawTensor> {
  const scores = Float32Array.from({ length: 24 }, (_, i) => {
    const [p, r, t] = [Math.floor(i / 12), Math.floor(i / 3) % 4, i % 3];
    return -(100 * p + 10 * r + t);
  });
  return {
    cross_logprobs: { dtype: 'F32', shape: [2, 4, 3], data: scores },
    lengths: { dtype: 'I32', shape: [4], data: Int32Array.of(3, 0, 2, 1) },
    group: { dtype: 'I64', shape: [4], data: BigInt64Array.of(7n, 5n, 7n, 5n) },
  };
}

/** Everything that a step file can have, for the step of smallStep. */
export function fullStep(): Record<string, RawTensor> {
  const perToken = Float32Array.from({ length: 12 }, (_, i) => i / 8);
  return {
    // One byte first, so that nothing after it is aligned.
    note: { dtype: 'U8', shape: [1], data: Uint8Array.of(9) },
    ...smallStep(),
    column_group: { dtype: 'I32', shape: [2], data: Int32Array.of(7, 5) },
    prompt_ids: { dtype: 'I32', shape: [2, 3], data: Int32Array.of(1, 2, 3, 4, 5, 0) },
    prompt_lengths: { dtype: 'I64', shape: [2], data: BigInt64Array.of(3n, 2n) },
    response_ids: { dtype: 'I32', shape: [4, 3], data: Int32Array.from({ length: 12 }, (_, i) => i) },
    rewards: { dtype: 'F32', shape: [4], data: Float32Array.of(0.5, 1, -1, 0) },
    outcome: { dtype: 'F64', shape: [4], data: Float64Array.of(0, 1, 0, 1) },
    correct: { dtype: 'BOOL', shape: [4], data: Uint8Array.of(0, 1, 0, 1) },
    valid: { dtype: 'U8', shape: [4], data: Uint8Array.of(1, 1, 1, 0) },
    actions: { dtype: 'I64', shape: [4], data: BigInt64Array.of(-1n, 2n ** 62n, 0n, 3n) },
    token_entropy: { dtype: 'F32', shape: [4, 3], data: perToken },
    episode: { dtype: 'I32', shape: [4], data: Int32Array.of(0, 0, 1, 1) },
    turn: { dtype: 'I32', shape: [4], data: Int32Array.of(0, 1, 0, 1) },
    action_logprobs: { dtype: 'F32', shape: [5, 4], data: new Float32Array(20).fill(-1) },
    ablated_logprobs: { dtype: 'BF16', shape: [4, 3], data: new Uint16Array(12).fill(0xbf80) },
  };
}

export async function put(path: string, bytes: Uint8Array): Promise<string> {
  await writeFile(path, bytes);
  return path;
}

/** The FileError that `promise` rejects with; anything else fails the test. */
export async function fileErrorOf(promise: Promise<unknown>): Promise<FileError> {
  const outcome = await promise.then(
    () => new Error('it did not reject'),
    (error: unknown) => error,
  );
  if (outcome instanceof FileError) return outcome;
  throw outcome;
}
