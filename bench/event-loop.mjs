// Does the event loop wait for the engine, or a file read for its threads? Delay of the loop and of fs.readFile while a
// 2 GB tensor is summed and scored, beside the same measured idle.
//   node bench/event-loop.mjs [--gigabytes 2]
import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { openEngine } from '../dist/index.js';
import { positive, readOptions } from '../scripts/options.mjs';
import { temporaryFolder } from './temporary.mjs';

const { gigabytes } = readOptions({ gigabytes: { read: positive, default: '2' } });
const [prompts, tokens] = [64, 512];
const rows = Math.floor((gigabytes * 1e9) / 4 / prompts / tokens);

const file = join(temporaryFolder(tmpdir(), 'collapsar-'), 'small');
writeFileSync(file, 'x'.repeat(4096));

/** Runs `work` and measures the loop's delay and the longest and median file read meanwhile, in milliseconds. */
async function measure(name, work) {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const reads = [];
  let running = true;
  delay.enable();
  const readers = (async () => {
    while (running) {
      const start = performance.now();
      await readFile(file);
      reads.push(performance.now() - start);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  })();
  const start = performance.now();
  await work();
  const took = performance.now() - start;
  running = false;
  await readers;
  delay.disable();
  reads.sort((a, b) => a - b);
  const p99 = delay.percentile(99) / 1e6;
  const row = [took, p99, delay.max / 1e6, reads[reads.length >> 1], reads.at(-1)].map((x) => x.toFixed(2));
  console.log(`| ${name} | ${row.join(' | ')} |`);
  return p99;
}

const engine = await openEngine();
const logprobs = engine.alloc('float32', [prompts, rows, tokens]);
logprobs.data.fill(-0.5);
const lengths = new Int32Array(rows).fill(tokens);
const own = Int32Array.from({ length: rows }, (_, r) => r % prompts);

console.log(`${engine.info.isa}, ${engine.info.threads} threads, [${logprobs.shape.join(', ')}] float32`);
console.log('| work | took ms | loop delay p99 ms | max | readFile median ms | max |\n|---|---|---|---|---|---|');
await measure('idle', () => new Promise((resolve) => setTimeout(resolve, 1000)));
let worst = 0;
let sums;
for (let i = 0; i < 3; i++) {
  worst = Math.max(
    worst,
    await measure('sumTokens', async () => {
      ({ sums } = await engine.sumTokens(logprobs, lengths));
    }),
  );
}
// The same memory as a matrix of scores: [rows · tokens, prompts].
const scores = { ...logprobs, shape: [rows * tokens, prompts] };
const many = { own: new Int32Array(rows * tokens), lengths: new Int32Array(rows * tokens).fill(1) };
worst = Math.max(worst, await measure('scoreStats, 2 GB', () => engine.scoreStats(scores, many)));
worst = Math.max(worst, await measure('scoreStats of the sums', () => engine.scoreStats(sums, { own, lengths })));
console.log(worst < 10 ? 'p99 under 10 ms throughout' : `p99 of ${worst.toFixed(1)} ms: the bar is 10 ms`);
process.exitCode = worst < 10 ? 0 : 1;
await engine.dispose();
