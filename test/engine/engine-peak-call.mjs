// Calls one operation in a process of its own and prints as JSON how far its memory rose, for engine-peak.test.ts.
//   node --expose-gc test/engine/engine-peak-call.mjs '{"operation", "dtype", "shape", "strides"?, "threads"}'
import { readFileSync } from 'node:fs';
import { openEngine } from '../../dist/index.js';

const { operation, dtype, shape, strides, threads } = JSON.parse(process.argv[2]);
const arrays = { float32: Float32Array, float64: Float64Array, float16: Uint16Array, bfloat16: Uint16Array };
// -1 and the bits of the fraction below it that are filled.
const bits16 = { float16: [0xbc00, 0x3ff], bfloat16: [0xbf80, 0x7f] };

/** Negative and finite everywhere, hardly two neighbours alike; every page is written, so that it counts as there. */
function filledInput() {
  const data = new arrays[dtype](shape.reduce((product, extent) => product * extent, 1));
  const period = 4099;
  for (let at = 0; at < period; at++) {
    const mixed = (at * 7919) % period;
    data[at] = dtype in bits16 ? bits16[dtype][0] | (mixed & bits16[dtype][1]) : -mixed / 100;
  }
  for (let at = period; at < data.length; at *= 2) data.copyWithin(at, 0, Math.min(at, data.length - at));
  return { data, dtype, shape, ...(strides && { strides }) };
}

function perRow(rows, label) {
  const values = new Int32Array(rows);
  for (let row = 0; row < rows; row++) values[row] = label(row);
  return values;
}

/**
 * The call, and the bytes of its labels: they are copied when it is made, so that the caller may write them at once.
 * @returns {{ call: (engine: import('../../dist/index.js').Engine) => Promise<object>, labelBytes: number }}
 */
function prepare() {
  if (operation === 'textFigures') {
    const [rows, tokens, prompts] = shape;
    const ids = Array.from({ length: rows }, (_, row) =>
      Int32Array.from({ length: tokens }, (_, at) => (row * at) % 997),
    );
    const groups = ids.map((_, row) => row % prompts);
    const options = { permutations: 0, seed: 0 };
    return { call: (engine) => engine.textFigures({ tokens: ids, groups }, options), labelBytes: 0 };
  }
  const tensor = filledInput();
  if (operation === 'sumTokens') {
    const [, rows, tokens] = shape;
    const lengths = perRow(rows, () => tokens);
    return { call: (engine) => engine.sumTokens(tensor, lengths), labelBytes: 8 * rows };
  }
  const [rows, columns] = shape;
  const labels = perRow(rows, (row) => row % columns);
  if (operation === 'logitStats') {
    return { call: (engine) => engine.logitStats(tensor, { targets: labels }), labelBytes: 4 * rows };
  }
  const lengths = perRow(rows, (row) => 1 + (row % 100));
  return { call: (engine) => engine.scoreStats(tensor, { own: labels, lengths }), labelBytes: (4 + 8) * rows };
}

/** VmRSS (resident now) or VmHWM (the most that ever was), in bytes. */
function resident(field) {
  const found = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(readFileSync('/proc/self/status', 'utf8'));
  return Number(found?.[1]) * 1024;
}

const engine = await openEngine({ device: 'cpu', threads });
const { call, labelBytes } = prepare();
resident('VmRSS'); // what reading it takes is there before
globalThis.gc?.(); // and what could be given back during the call is given back now: it would count against its outputs
const before = resident('VmRSS');
const result = await call(engine);
const rise = resident('VmHWM') - before;
const outputBytes = Object.values(result)
  .map((value) => (ArrayBuffer.isView(value) ? value : value?.data))
  .reduce((sum, array) => sum + (array?.byteLength ?? 0), 0);
console.log(JSON.stringify({ rise, outputBytes, labelBytes }));
await engine.dispose();
