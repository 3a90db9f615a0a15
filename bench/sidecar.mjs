// A sidecar for 100,000 steps: time and memory of a step over the wire, early and late. npm run compile first.
//   node bench/sidecar.mjs [steps]
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const steps = Number(process.argv[2] ?? 100_000);
const command = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url));
const child = spawn(process.execPath, [command, 'monitor', '--threads', '1'], { stdio: ['pipe', 'pipe', 'inherit'] });
const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
let id = 0;

const send = (op, fields) => child.stdin.write(`${JSON.stringify({ id: ++id, op, ...fields })}\n`);

async function answer() {
  const { value } = await answers.next();
  const read = JSON.parse(value);
  if (read.error !== undefined) throw new Error(read.error.message);
  return read;
}

async function residentMiB() {
  const statm = `/proc/${child.pid}/statm`;
  return existsSync(statm) ? Number(readFileSync(statm, 'utf8').split(' ')[1]) / 256 : Number.NaN;
}

/** Of 16 prompts × 8 rows. */
const groups = Array.from({ length: 128 }, (_, row) => row >> 3);
const lengths = groups.map(() => 10);
const sums = groups.map((group, row) =>
  Array.from({ length: 16 }, (_, prompt) => -20 + (prompt === group ? 2 : 0) - ((row * 7 + prompt * 3) % 11) / 10),
);

send('open', { options: { everySteps: 1000, permutations: 99, filter: { strategy: 'top_p', value: 0.9 } } });
await answer();
const tenth = Math.max(1, Math.floor(steps / 10));
let since = performance.now();
for (let step = 1; step <= steps; step++) {
  send('step', { step, groups, lengths });
  const { due } = await answer();
  if (due) {
    send('score', { sums });
    await answer();
  }
  send('finish', { outcomes: { rewards: groups.map((_, row) => ((row * 31 + step) % 5) / 4) } });
  await answer();
  if (step % tenth === 0) {
    const milliseconds = (performance.now() - since) / tenth;
    console.log(`step ${step}: ${milliseconds.toFixed(2)} ms a step, ${(await residentMiB()).toFixed(0)} MiB resident`);
    since = performance.now();
  }
}
send('save', {});
console.log(`state: ${(JSON.stringify((await answer()).state).length / 1024).toFixed(1)} KiB`);
send('close', {});
await answer();
