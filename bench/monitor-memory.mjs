// 100,000 steps through one monitor: the memory it holds and the time a step takes.
// node bench/monitor-memory.mjs [--steps 100000]; needs `npm run compile`.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Monitor, openEngine } from '../dist/index.js';
import { readOptions, whole } from '../scripts/options.mjs';
import { uniformNumbers } from './random.mjs';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc');
const { steps } = readOptions({ steps: { read: whole(1), default: '100000' } });
const [P, K, T] = [4, 4, 4];
const R = P * K;

const uniform = uniformNumbers(1);
const groups = Int32Array.from({ length: R }, (_, row) => Math.floor(row / K));
const lengths = new Int32Array(R).fill(T);

const engine = await openEngine({ threads: 1 });
const monitor = new Monitor({
  engine,
  everySteps: 10,
  permutations: 0,
  filter: {},
  buckets: {},
  judge: { permutations: 0 },
});
const begun = process.hrtime.bigint();
console.log('step        heap MB   rss MB   state kB   µs a step');
for (let step = 1; step <= steps; step++) {
  const opened = monitor.step(step, { groups, lengths });
  if (opened.due) {
    for (const { prompt } of opened.pairs().byPrompt) {
      const data = Float32Array.from(
        { length: R * T },
        (_, at) => -1 - uniform() + (groups[Math.floor(at / T)] === prompt ? 0.3 : 0),
      );
      await opened.score(prompt, { data, dtype: 'float32', shape: [R, T] });
    }
  }
  const rewards = Array.from({ length: R }, () => (uniform() < 0.5 ? 0 : 1));
  await opened.finish({ rewards, actions: rewards, entropies: Array.from({ length: R }, uniform) });
  if (step % Math.ceil(steps / 10) !== 0) continue;
  gc();
  const { heapUsed, rss } = process.memoryUsage();
  const kilobytes = JSON.stringify(monitor.save()).length / 1e3;
  const micros = Number(process.hrtime.bigint() - begun) / 1e3 / step;
  const cells = [heapUsed / 1e6, rss / 1e6, kilobytes, micros].map((value) => value.toFixed(1).padStart(8));
  console.log(`${String(step).padEnd(9)} ${cells.join('  ')}`);
}
await engine.dispose();
