// How fast are text figures? One step of 1,024 rows × 1,024 tokens, 64 prompts, on one thread; and beside it, in turns,
// the same scores by sparse products in numpy and scipy, as scikit-learn counts and classifies (bench/text_counts.py).
// A Markdown table on stdout.
//
//   npm run compile && node bench/text-speed.mjs [--rows 1024] [--tokens 1024] [--prompts 64] [--repeats 5] [--python
//   python3]
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openEngine } from '../dist/index.js';
import { readOptions, whole } from '../scripts/options.mjs';
import { uniformNumbers } from './random.mjs';

const given = readOptions({
  rows: { read: whole(2), default: '1024' },
  tokens: { read: whole(1), default: '1024' },
  prompts: { read: whole(2), default: '64' },
  repeats: { read: whole(1), default: '5' },
  python: { read: String, default: 'python3' },
});

/**
 * Zipf's law over 32,000 words; a fifth of a row's tokens from two hundred of its prompt's own.
 * @param {Record<string, number>} shape
 */
function drawnStep({ rows, tokens, prompts }) {
  const uniform = uniformNumbers(7);
  const vocabulary = 32_000;
  const sums = new Float64Array(vocabulary);
  for (let word = 0, sum = 0; word < vocabulary; word++) sums[word] = sum += 1 / (word + 2.7);
  const word = () => {
    const wanted = uniform() * sums[vocabulary - 1];
    let [low, high] = [0, vocabulary - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const topics = Array.from({ length: prompts }, () => Array.from({ length: 200 }, word));
  const groups = Array.from({ length: rows }, (_, row) => row % prompts);
  const ids = groups.map((group) =>
    Int32Array.from({ length: tokens }, () => (uniform() < 0.2 ? topics[group][Math.floor(uniform() * 200)] : word())),
  );
  const spelled = (of) => Array.from(of, (id) => `w${id.toString(36)}`).join(' ');
  return {
    ids: { tokens: ids, groups },
    'ids, prompts known': { tokens: ids, groups, promptTokens: groups.map((group) => topics[group]) },
    words: { texts: ids.map(spelled), groups },
    'words, prompts known': {
      texts: ids.map(spelled),
      groups,
      prompts: groups.map((group) => spelled(topics[group])),
    },
  };
}

const kinds = drawnStep(given);
const count = given.rows * given.tokens;
const engine = await openEngine({ device: 'cpu', threads: 1 });
const folder = await mkdtemp(join(tmpdir(), 'collapsar-texts-'));
const best = new Map();
const note = (name, seconds) => best.set(name, Math.min(best.get(name) ?? Number.POSITIVE_INFINITY, seconds));
let peer;
try {
  const flat = new Int32Array(count);
  for (const [at, row] of kinds.ids.tokens.entries()) flat.set(row, at * given.tokens);
  await writeFile(join(folder, 'tokens.bin'), flat);
  let ours = Number.NaN;
  for (let repeat = 0; repeat < given.repeats; repeat++) {
    for (const [name, rows] of Object.entries(kinds)) {
      const start = performance.now();
      const found = await engine.textFigures(rows, { permutations: 999, seed: 0 });
      note(name, (performance.now() - start) / 1000);
      if (name === 'ids') ours = found.specificity;
    }
    const run = spawnSync(
      given.python,
      [
        fileURLToPath(new URL('./text_counts.py', import.meta.url)),
        join(folder, 'tokens.bin'),
        given.rows,
        given.tokens,
        given.prompts,
      ].map(String),
      { encoding: 'utf8', env: { ...process.env, OMP_NUM_THREADS: '1', OPENBLAS_NUM_THREADS: '1' } },
    );
    if (run.status !== 0) {
      peer = `not run: ${(run.stderr || String(run.error)).trim().split('\n').at(-1)}`;
      continue;
    }
    const { seconds, specificity } = JSON.parse(run.stdout);
    if (Math.abs(specificity - ours) > 1e-9) {
      throw new Error(`the peer's specificity is ${specificity}, ours ${ours}`);
    }
    note('numpy and scipy: scores alone', seconds);
  }
} finally {
  await engine.dispose();
  await rm(folder, { recursive: true, force: true });
}
console.log(
  `| ${given.rows} rows × ${given.tokens} tokens, ${given.prompts} prompts, one thread | ms | million tokens/s |`,
);
console.log('|---|---|---|');
for (const [name, seconds] of best) {
  console.log(`| ${name} | ${(seconds * 1000).toFixed(1)} | ${(count / seconds / 1e6).toFixed(1)} |`);
}
if (peer !== undefined) console.log(`\n${peer}`);
