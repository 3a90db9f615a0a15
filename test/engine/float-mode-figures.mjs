// What every operation makes of scores with subnormal numbers and ties -> JSON on stdout: a digest of its bits for each
// operation, and how the JS thread and the engine compute. Of float-mode.test.ts.
import { createHash } from 'node:crypto';
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crossScoreMetrics, filterGroups, openEngine } from '../../dist/index.js';

const [rows, prompts, tokens] = [40, 8, 70];

/** Elements by their bits: whatever the JS thread computes may come out otherwise. */
const storage = {
  float64: (count) => new Float64Array(bits64(count).buffer),
  float32: (count) => new Float32Array(bits32(count, 23, 0x3f80_0000).buffer),
  float16: (count) => Uint16Array.from(bits32(count, 10, 0x3c00), (bits) => (bits & 0x7fff) | 0x8000),
  bfloat16: (count) => Uint16Array.from(bits32(count, 7, 0x3f80), (bits) => (bits & 0x7fff) | 0x8000),
};

let state = 1;
function draw() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state >>> 8;
}

/** A third of subnormal numbers, a third that are tied, a third of magnitude 1; all negative. */
function bits32(count, fractionBits, one) {
  const sign = one < 0x1_0000 ? 0x8000 : 0x8000_0000;
  const fraction = 2 ** fractionBits - 1;
  return Uint32Array.from({ length: count }, () => {
    const bits = [draw() & 3, one, one | (draw() & fraction)][draw() % 3];
    return (sign | bits) >>> 0;
  });
}
function bits64(count) {
  return BigUint64Array.from(
    { length: count },
    () => (1n << 63n) | [BigInt(draw() & 3), 0x3ff0n << 48n, (0x3ff0n << 48n) | BigInt(draw())][draw() % 3],
  );
}

const tensor = (dtype, shape) => ({
  data: storage[dtype](shape.reduce((product, extent) => product * extent, 1)),
  dtype,
  shape,
});

const digests = {};
function note(name, value) {
  const hash = createHash('sha256');
  const add = (part) => {
    if (ArrayBuffer.isView(part)) hash.update(new Uint8Array(part.buffer, part.byteOffset, part.byteLength));
    else if (typeof part === 'number') hash.update(new Uint8Array(Float64Array.of(part).buffer));
    else if (part !== null && typeof part === 'object') {
      for (const [key, field] of Object.entries(part)) {
        hash.update(key);
        add(field);
      }
    } else hash.update(String(part));
  };
  add(value);
  digests[name] = hash.digest('hex').slice(0, 16);
}

const engine = await openEngine({ device: 'cpu', threads: 2 });
const lengths = Int32Array.from({ length: rows }, (_, row) => 1 + ((row * 31) % tokens));
const own = Int32Array.from({ length: rows }, (_, row) => row % prompts);
const signatures = Int32Array.of(0, 1, 2, 3, 4, 5, 5, 0);
for (const dtype of /** @type {import('../../dist/index.js').DType[]} */ (Object.keys(storage))) {
  const logprobs = tensor(dtype, [prompts, rows, tokens]);
  const sums = tensor(dtype, [rows, prompts]);
  const wide = tensor(dtype, [3, 5000]);
  const summed = await engine.sumTokens(logprobs, lengths);
  note(`sumTokens ${dtype}`, summed);
  note(`tokenRowStats ${dtype}`, await engine.tokenRowStats(logprobs, lengths, { own }));
  const stats = await engine.scoreStats(sums, { own, lengths });
  note(`scoreStats ${dtype}`, stats);
  note(`scoreStats of equivalent columns ${dtype}`, await engine.scoreStats(sums, { own, lengths, signatures }));
  const few = { own: own.subarray(0, 3), lengths: lengths.subarray(0, 3) };
  note(`scoreStats of many columns ${dtype}`, await engine.scoreStats(wide, few));
  note(`logitStats ${dtype}`, await engine.logitStats(wide, { targets: few.own, sequences: { lengths: [1, 2] } }));
  note(`logitStats at a temperature ${dtype}`, await engine.logitStats(wide, { targets: few.own, temperature: 0.7 }));
  const gathered = await engine.gatherScores(sums, { columns: [3, 1, 0, 2, 4, 5, 6, 7] });
  note(`gatherScores ${dtype}`, gathered);
  const again = await engine.scoreStats(gathered, { own, lengths });
  note(`stepMoments ${dtype}`, await engine.stepMoments(again, { own, lengths }));
  note(`inferStep ${dtype}`, await engine.inferStep(gathered, again, { own, lengths, permutations: 99, seed: 3 }));
  // In blocks of tokens, whose sums are added up on the JS thread.
  const sink = engine.tokenSumsSink({ prompts, rows, lengths });
  for (let from = 0; from < tokens; from += 7) {
    const data = new logprobs.data.constructor(prompts * rows * 7);
    for (let pair = 0; pair < prompts * rows; pair++) {
      data.set(logprobs.data.subarray(pair * tokens + from, pair * tokens + from + 7), pair * 7);
    }
    await sink.add({ logprobs: { data, dtype, shape: [prompts, rows, 7] }, tokens: { from } });
  }
  note(`tokenSumsSink ${dtype}`, await sink.finish());
  const folder = mkdtempSync(join(tmpdir(), 'collapsar-float-mode-'));
  const file = join(folder, 'scores');
  writeFileSync(file, new Uint8Array(logprobs.data.buffer));
  const fd = openSync(file, 'r');
  note(
    `sumFileTokens ${dtype}`,
    await engine.sumFileTokens({ fd, offset: 0, dtype, shape: [prompts, rows, tokens] }, lengths),
  );
  closeSync(fd);
  rmSync(folder, { recursive: true });
  const groups = Int32Array.from({ length: rows }, (_, row) => row % prompts);
  const step = await crossScoreMetrics(engine, { sums, lengths, groups }, { permutations: 99, perRow: true });
  note(`crossScoreMetrics ${dtype}`, step);
}

// A row of two leaves of subnormal numbers, in two blocks: the leaves' sums meet on the JS thread.
const whole = new Float64Array(BigUint64Array.from({ length: 8192 }, () => 3n).buffer);
const sink = engine.tokenSumsSink({ prompts: 1, rows: 1, lengths: [8192] });
for (const from of [0, 4096]) {
  const data = whole.subarray(from, from + 4096);
  await sink.add({ logprobs: { data, dtype: 'float64', shape: [1, 1, 4096] }, tokens: { from } });
}
note('tokenSumsSink of subnormal sums', await sink.finish());

const rewards = Array.from({ length: 8 }, (_, group) =>
  Array.from({ length: 4 }, (_, at) => [0, 1, Number.MIN_VALUE, 2 ** -1060][(group + at * group) % 4]),
);
note('filterGroups', filterGroups({ rewards }, { strategy: 'top_p', value: 0.9 }));

// Under half of the prompts a row has one score, under the other half another: own is among the best eight in half of
// the rows.
const halves = Float64Array.from({ length: 256 }, (_, at) => (((at >> 4) + at) % 16 < 8 ? -8 : -9));
const equal = { data: halves, dtype: /** @type {const} */ ('float64'), shape: [16, 16] };
const groups = Int32Array.from({ length: 16 }, (_, row) => row);
const tied = await crossScoreMetrics(engine, { sums: equal, lengths: new Int32Array(16).fill(4), groups });
note('crossScoreMetrics of ties', tied);

// Its argument comes from outside, so that nothing computes it beforehand.
const halved = Number(process.argv[2]) / 2;
console.log(JSON.stringify({ digests, halved, accuracy: tied.values['retrieval_accuracy@8'] }));
await engine.dispose();
