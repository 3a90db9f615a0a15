// The sidecar takes log-probs out of the GPU memory of its trainer: two processes, handles as PyTorch gives them.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, type Sidecar, startSidecar } from '../../serve/sidecar-client.js';
import { buildIfStale } from '../../support/built-command.js';
import { type Produced, produce } from './device-producer.js';
import { hasBackend, setEmulation } from './engine-device-backend.js';

const [P, R, T] = [3, 6, 4];
const lengths = [4, 2, 3, 1, 4, 3];
const groups = [0, 0, 1, 1, 2, 2];
const rewards = [0, 1, 1, 1, 0, 1];
/** [P, R, T] */
const logprobs = Float32Array.from({ length: P * R * T }, (_, at) => -(1 + ((at * 37) % 19)) / 8);
const sums = Array.from({ length: R }, (_, row) =>
  Array.from({ length: P }, (_, prompt) => {
    const from = (prompt * R + row) * T;
    return logprobs.subarray(from, from + (lengths[row] as number)).reduce((sum, value) => sum + value, 0);
  }),
);

describe.skipIf(!hasBackend)('scores in the GPU memory of the trainer', () => {
  let made: Produced;
  beforeAll(async () => {
    setEmulation();
    buildIfStale();
    made = await produce(logprobs);
  });
  afterAll(() => void made?.child.stdin?.end());

  /** A step that is scored by the requests; its report. */
  async function report(...scores: Json[]): Promise<Json> {
    const sidecar: Sidecar = startSidecar();
    try {
      await sidecar.ask('open', { protocol: 1, options: { permutations: 19 } });
      await sidecar.ask('step', { step: 1, groups, lengths, due: true });
      for (const score of scores) expect(await sidecar.ask('score', score)).not.toHaveProperty('error');
      return await sidecar.ask('finish', { outcomes: { rewards } });
    } finally {
      sidecar.child.kill('SIGKILL');
    }
  }
  const tensor = () => ({ handle: made.handle, offset: made.offset, bytes: logprobs.byteLength, dtype: 'float32' });
  const strip = ({ id: _, ...rest }: Json) => rest;

  it('give the report that their sums give, whole and prompt by prompt', async () => {
    const expected = strip(await report({ sums }));
    expect(strip(await report({ ipc: { ...tensor(), shape: [P, R, T] } }))).toEqual(expected);
    const each = [0, 1, 2].map((prompt) => ({
      prompt,
      ipc: { ...tensor(), shape: [R, T], storageOffset: prompt * R * T },
    }));
    expect(strip(await report(...each))).toEqual(expected);
  });

  it('of some rows are those of these rows, and a handle that is none is an error of the one request', async () => {
    const rows = [0, 2, 4];
    const strided = { ...tensor(), shape: [3, T], strides: [2 * T, 1] };
    const some = [0, 1, 2].flatMap((prompt) => [
      { prompt, rows, ipc: { ...strided, storageOffset: prompt * R * T } },
      { prompt, rows: rows.map((row) => row + 1), ipc: { ...strided, storageOffset: (prompt * R + 1) * T } },
    ]);
    expect(strip(await report(...some))).toEqual(strip(await report({ sums })));
    const sidecar = startSidecar();
    try {
      await sidecar.ask('open', { protocol: 1 });
      await sidecar.ask('step', { step: 1, groups, lengths, due: true });
      const none = { ...tensor(), handle: Buffer.alloc(64).toString('base64'), shape: [P, R, T] };
      expect(await sidecar.ask('score', { ipc: none })).toMatchObject({
        error: { code: 'ERR_DEVICE', argument: 'bad_handle' },
      });
      expect(await sidecar.ask('score', { ipc: { ...tensor(), shape: [P, R, T] } })).not.toHaveProperty('error');
    } finally {
      sidecar.child.kill('SIGKILL');
    }
  });
});
