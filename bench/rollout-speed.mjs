// How fast are JSON lines of rollouts read and analysed, against a program that only reads and JSON.parses the lines with as many
// threads? Both in turns, on the same files, warm.
//
//   npm run compile && node bench/rollout-speed.mjs [--mb 1000] [--threads 2] [--rounds 3]
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { bestInTurns } from './in-turns.mjs';
import { uniformNumbers } from './random.mjs';

if (isMainThread) await main();
else await parseAll();

/** Reads and parses every n-th file, whole blocks at a time. */
async function parseAll() {
  const { open } = await import('node:fs/promises');
  let rows = 0;
  for (const path of workerData.paths) {
    const handle = await open(path);
    const block = Buffer.allocUnsafe(2 ** 21);
    let held = 0;
    for (;;) {
      const { bytesRead } = await handle.read(block, held, block.length - held);
      const end = held + bytesRead;
      let begin = 0;
      for (let at = block.indexOf(10, begin); at >= 0 && at < end; at = block.indexOf(10, begin)) {
        JSON.parse(block.toString('utf8', begin, at));
        rows++;
        begin = at + 1;
      }
      block.copy(block, 0, begin, end);
      held = end - begin;
      if (bytesRead === 0) break;
    }
    await handle.close();
  }
  parentPort?.postMessage(rows);
}

async function main() {
  const { analyze, openEngine } = await import('../dist/index.js');
  const { readRollouts } = await import('../dist/exports/logs.js');
  const { readOptions, whole } = await import('../scripts/options.mjs');
  const { mb, threads, rounds } = readOptions({
    mb: { read: whole(1), default: '1000' },
    threads: { read: whole(1), default: String(availableParallelism()) },
    rounds: { read: whole(1), default: '3' },
  });
  const folder = join(tmpdir(), `collapsar-rollout-speed-${mb}`);
  const bytes = await written(folder, mb * 1e6);
  const paths = (await readdir(folder)).map((name) => join(folder, name));
  const engine = await openEngine({ device: 'cpu', threads });
  const ways = {
    'read + JSON.parse': () =>
      Promise.all(
        Array.from({ length: threads }, (_, at) => {
          const own = paths.filter((_, index) => index % threads === at);
          const worker = new Worker(new URL(import.meta.url), { workerData: { paths: own } });
          return new Promise((resolve, reject) => worker.on('message', resolve).on('error', reject));
        }),
      ),
    readRollouts: async () => {
      for await (const _ of readRollouts(folder, { threads }));
    },
    'analyze, no p-values': async () => {
      for await (const _ of analyze(folder, { engine, threads, permutations: 0 }));
    },
  };
  const best = await bestInTurns(ways, rounds);
  await engine.dispose();
  const base = best['read + JSON.parse'];
  console.log(`${(bytes / 1e6).toFixed(0)} MB in ${paths.length} files, ${threads} threads, best of ${rounds}\n`);
  console.log('| | s | MB/s | of reading and parsing |\n|---|---|---|---|');
  for (const [name, seconds] of Object.entries(best)) {
    console.log(
      `| ${name} | ${seconds.toFixed(2)} | ${(bytes / 1e6 / seconds).toFixed(0)} | ${(base / seconds).toFixed(2)} |`,
    );
  }
  console.log(`\nmemory of the process at its end: ${(process.memoryUsage().rss / 1e6).toFixed(0)} MB`);
}

/** verl's log: a file a step, 64 prompts × 8 rows of some 3 kB. */
async function written(folder, bytes) {
  mkdirSync(folder, { recursive: true });
  let total = 0;
  for (let step = 1; total < bytes; step++) {
    const path = join(folder, `${step}.jsonl`);
    const size = statSync(path, { throwIfNoEntry: false })?.size;
    if (size === undefined) {
      const uniform = uniformNumbers(step);
      const word = () => `word${Math.floor(20_000 ** uniform())}`;
      const lines = [];
      for (let row = 0; row < 512; row++) {
        const prompt = row >> 3;
        const text = Array.from({ length: 300 }, (_, at) => (at % 20 === 19 ? `${word()}.\n` : word())).join(' ');
        const output = `<think>\n${text}</think>\n\n${prompt}`;
        lines.push(
          JSON.stringify({
            input: `user\nquestion ${prompt} of ${step}`,
            output,
            gts: '1',
            score: row % 2,
            step,
            acc: true,
          }),
        );
      }
      writeFileSync(path, `${lines.join('\n')}\n`);
    }
    total += size ?? statSync(path).size;
  }
  return total;
}
