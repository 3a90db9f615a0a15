// Filtering 4,096 groups of eight, the largest batch that trainers usually have, beside numpy's std and argsort on the
// same bytes.
//   node bench/filter.mjs [--groups 1000000]            (needs dist/: npm run prepare)
//   COLLAPSAR_PYTHON=python node bench/filter.mjs      a Python with numpy; without it that half is skipped by name
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { filterGroups } from '../dist/filter/filter-groups.js';
import { readOptions, whole } from '../scripts/options.mjs';
import { bell, uniformNumbers } from './random.mjs';
import { median } from './suite/statistics.mjs';
import { temporaryFolder } from './temporary.mjs';

const { groups } = readOptions({ groups: { read: whole(1), default: '4096' } });
const size = 8;
const rounds = 9;

/** Normal rewards, scaled group by group, from a seeded generator. */
function makeRewards() {
  const values = new Float64Array(groups * size);
  const uniform = uniformNumbers(1);
  for (let group = 0; group < groups; group++) {
    const scale = uniform();
    for (let at = 0; at < size; at++) values[group * size + at] = scale * bell(uniform);
  }
  return values;
}

const PYTHON = `
import sys, time
import numpy as np
rewards = np.fromfile(sys.argv[1]).reshape(-1, ${size})
best = []
for _ in range(${rounds}):
    start = time.perf_counter()
    std = rewards.std(axis=1, ddof=1)
    np.argsort(std)
    best.append((time.perf_counter() - start) * 1e3)
print(np.__version__, *best)
`;

function numpyTimes(values) {
  const python = process.env.COLLAPSAR_PYTHON;
  if (!python) return 'skipped: numpy (set COLLAPSAR_PYTHON to a Python that has it)';
  const file = join(temporaryFolder(tmpdir(), 'collapsar-'), 'rewards.bin');
  writeFileSync(file, values);
  const { status, stdout, stderr } = spawnSync(python, ['-c', PYTHON, file], { encoding: 'utf8' });
  if (status !== 0) return `skipped: numpy (${String(stderr).trim().split('\n').at(-1)})`;
  const [version, ...times] = stdout.trim().split(' ');
  return { version, times: times.map(Number) };
}

/** After two rounds in which the JIT compiler finds out what is hot. */
function times(work) {
  work();
  work();
  return Array.from({ length: rounds }, () => {
    const start = performance.now();
    work();
    return performance.now() - start;
  });
}

const lowest = (values) => Math.min(...values);

const values = makeRewards();
const rowGroups = Int32Array.from({ length: values.length }, (_, row) => Math.floor(row / size));
const numpy = numpyTimes(values);
console.log(`${groups} groups of ${size}, ${rounds} rounds, Node ${process.version}`);
console.log('| what | median ms | least ms | median against numpy |\n|---|---|---|---|');
const row = (what, taken) => {
  const against = typeof numpy === 'string' ? '' : (median(taken) / median(numpy.times)).toFixed(2);
  console.log(`| ${what} | ${median(taken).toFixed(2)} | ${lowest(taken).toFixed(2)} | ${against} |`);
};
if (typeof numpy === 'string') console.log(numpy);
else row(`numpy ${numpy.version}: std(axis=1, ddof=1), argsort`, numpy.times);
const flat = { values, groupSize: size };
row(
  'strict, { values, groupSize }',
  times(() => filterGroups({ rewards: flat })),
);
for (const dialect of /** @type {const} */ (['paper', 'upstream', 'dapo', 'ragen'])) {
  row(
    `${dialect}, { values, groupSize }`,
    times(() => filterGroups({ rewards: flat }, { dialect })),
  );
}
row(
  'strict, { values, groups }',
  times(() => filterGroups({ rewards: { values, groups: rowGroups } })),
);
const nested = Array.from({ length: groups }, (_, group) => [...values.subarray(group * size, (group + 1) * size)]);
row(
  'strict, number[][]',
  times(() => filterGroups({ rewards: nested })),
);
