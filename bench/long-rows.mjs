// Rows that threads share: a dense row of 1 GiB with one thread and with two, and how soon an abort is heard within a
// row of 2^33 tokens or 2^31 - 1 columns.
//   node bench/long-rows.mjs [rounds]
// Exits with 1 where two threads are less than 1.7 times as fast as one, or an abort takes 100 ms.
import { openEngine } from '../dist/index.js';

const rounds = Number(process.argv[2] ?? 8);
const elements = 2 ** 28;
const leastGain = 1.7;
const longestWait = 0.1;

const engines = [await openEngine({ device: 'cpu', threads: 1 }), await openEngine({ device: 'cpu', threads: 2 })];
const row = engines[0].alloc('float32', [1, elements]);
row.data.fill(-1.5);
/** One element seen again and again. */
const repeated = (shape) => ({ data: new Float32Array([-1.5]), dtype: 'float32', shape, strides: shape.map(() => 0) });

const operations = {
  sumTokens: {
    dense: (engine) => engine.sumTokens({ ...row, shape: [1, 1, elements] }, [elements]),
    endless: (engine, options) => engine.sumTokens(repeated([1, 1, 2 ** 33]), [2 ** 33], options),
  },
  scoreStats: {
    dense: (engine) => engine.scoreStats(row, { own: [5], lengths: [7] }),
    endless: (engine, options) => engine.scoreStats(repeated([1, 2 ** 31 - 1]), { own: [5], lengths: [7], ...options }),
  },
  logitStats: {
    dense: (engine) => engine.logitStats(row, { targets: [5] }),
    endless: (engine, options) => engine.logitStats(repeated([1, 2 ** 31 - 1]), { targets: [5], ...options }),
  },
};

/** Seconds from an abort, once the job runs, to the end of the call. */
async function abortSeconds(call) {
  const controller = new AbortController();
  const reason = new Error('enough');
  let from = Number.NaN;
  const onProgress = (share) => {
    if (share === 0 || controller.signal.aborted) return;
    from = performance.now();
    controller.abort(reason);
  };
  const ended = await call({ signal: controller.signal, onProgress }).catch((error) => error);
  if (ended !== reason) throw new Error('the call ended before it was aborted');
  return (performance.now() - from) / 1000;
}

let missed = false;
for (const [name, { dense, endless }] of Object.entries(operations)) {
  const seconds = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let round = 0; round < rounds; round++) {
    for (const [at, engine] of engines.entries()) {
      const from = performance.now();
      await dense(engine);
      seconds[at] = Math.min(seconds[at], (performance.now() - from) / 1000);
    }
  }
  const waits = [];
  for (let round = 0; round < rounds; round++)
    waits.push(await abortSeconds((options) => endless(engines[1], options)));
  const gain = seconds[0] / seconds[1];
  const wait = waits.sort((a, b) => a - b)[Math.floor(rounds / 2)];
  missed ||= gain < leastGain || wait >= longestWait;
  const [one, two] = seconds.map((value) => `${(1000 * value).toFixed(1)} ms`);
  console.log(
    `${name}: 1 GiB in ${one}, with two threads ${two}: ${gain.toFixed(2)}x; abort ${(1000 * wait).toFixed(1)} ms`,
  );
}
await Promise.all(engines.map((engine) => engine.dispose()));
process.exitCode = missed ? 1 : 0;
