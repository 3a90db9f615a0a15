// Compares two result files: what got slower by more than the noise.
//
//   node bench/compare.mjs BEFORE.json AFTER.json [--any-machine] [--allow-missing]
//
// Slower: the median rose by more than the spreads of both runs together, and by 3% at least. A measure that BEFORE has
// and AFTER has not fails too (it may hide anything) unless --allow-missing; what is too noisy to show a rise of 20% is
// named. Exit status: 0 nothing got slower, 1 something did, 2 wrong usage or files that cannot be compared, 3 nothing
// is seen to be slower but the runs cannot show it: one is not to be relied on, or most of the measures are too noisy.
import { readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { doubts, showSeconds } from './suite/report.mjs';

/** The least rise that is called one, however steady the runs. */
export const leastRise = 0.03;
/** Measures whose own noise is above this cannot show a rise that matters. */
export const tooNoisy = 0.2;

const nameOf = ({ case: id, isa, threads }) => `${id}, ${isa}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`;

/** collapsar's own times by name; peers and reads are not ours to regress, nor sizes that peers' speed has chosen. */
function ownTimes({ measures, calls }) {
  return new Map([
    ...measures
      .filter(({ runner, smallerThan }) => runner === 'collapsar' && smallerThan === undefined)
      .map((one) => [nameOf(one), one]),
    ...calls.map((one) => [`call: ${one.name}`, one]),
  ]);
}

/** How much slower the machine itself reads: the median over the roofline's measures that both files have. */
function readChange(before, after) {
  const reads = ({ measures }) =>
    new Map(measures.filter(({ runner }) => runner === 'read').map((m) => [nameOf(m), m]));
  const earlier = reads(before);
  const ratios = [...reads(after)]
    .filter(([name]) => earlier.has(name))
    .map(([name, { seconds }]) => seconds / earlier.get(name).seconds)
    .sort((a, b) => a - b);
  return ratios.length === 0 ? undefined : ratios[ratios.length >> 1];
}

/**
 * @param {import('./suite/report.mjs').Results} before
 * @param {import('./suite/report.mjs').Results} after
 */
export function compareRuns(before, after) {
  const changes = [];
  const missing = [];
  const later = ownTimes(after);
  for (const [name, old] of ownTimes(before)) {
    const now = later.get(name);
    if (now === undefined) {
      missing.push(name);
      continue;
    }
    const noise = old.spread + now.spread;
    changes.push({ name, before: old.seconds, after: now.seconds, ratio: now.seconds / old.seconds, noise });
  }
  // Faster by as much means slower by as much the other way round.
  const limit = ({ noise }) => 1 + Math.max(leastRise, noise);
  return {
    slower: changes.filter((one) => one.ratio > limit(one)).sort((a, b) => b.ratio - a.ratio),
    faster: changes.filter((one) => 1 / one.ratio > limit(one)).sort((a, b) => a.ratio - b.ratio),
    unclear: changes.filter((one) => one.noise > tooNoisy && one.ratio <= limit(one)),
    compared: changes.length,
    missing,
    readChange: readChange(before, after),
  };
}

const isTime = (one) =>
  Number.isFinite(one?.seconds) && one.seconds > 0 && Number.isFinite(one.spread) && one.spread >= 0;

/**
 * What keeps this from being a whole result of the suite; undefined if nothing does. A time of null would seem fast.
 */
function fault(run) {
  if (run?.schema !== 1 || !Array.isArray(run.measures) || !Array.isArray(run.calls))
    return 'is no result of this suite';
  if (typeof run.machine?.cpu !== 'string' || !Number.isFinite(run.machine.threads)) return 'names no machine';
  if (!Number.isFinite(run.load?.before)) return 'names no load';
  for (const key of ['measures', 'calls']) {
    const at = run[key].findIndex((one) => !isTime(one));
    if (at < 0) continue;
    const { case: id, name = id, seconds, spread } = run[key][at] ?? {};
    return `has no time in ${key}[${at}]${name === undefined ? '' : ` (${name})`}: seconds ${seconds}, spread ${spread}`;
  }
  return undefined;
}

/**
 * A stored run; throws with the path if the file is not a whole one.
 * @returns {Promise<import('./suite/report.mjs').Results>}
 */
export async function readResults(path) {
  const text = await readFile(path, 'utf8');
  let run;
  let problem;
  try {
    run = JSON.parse(text);
    problem = fault(run);
  } catch (error) {
    problem = `is no JSON (${error.message})`;
  }
  if (problem !== undefined) throw new Error(`${path} ${problem}: run npm run bench again`);
  return run;
}

/** Why the two must not be compared; undefined if nothing speaks against it. */
export function mismatch(before, after, { anyMachine = false } = {}) {
  for (const key of ['suite', 'quick']) {
    if (before[key] !== after[key]) return `${key} differs: ${before[key]} and ${after[key]}`;
  }
  const machines = [before, after].map(({ machine }) => `${machine.cpu}, ${machine.threads} threads`);
  if (!anyMachine && machines[0] !== machines[1]) {
    return `the machines differ: ${machines.join(' and ')} (--any-machine compares them all the same)`;
  }
  return undefined;
}

const percent = (ratio) => `${ratio >= 1 ? '+' : '−'}${(Math.abs(ratio - 1) * 100).toFixed(1)}%`;
function line({ name, before, after, ratio, noise }) {
  const times = `${showSeconds(before)} → ${showSeconds(after)}`;
  return `  ${percent(ratio).padStart(8)}  ${times}  (noise ±${(noise * 100).toFixed(1)}%)  ${name}`;
}

/** @returns {string} the comparison in words */
export function describeComparison({ slower, faster, unclear, missing, compared, readChange: reads }) {
  const parts = [];
  const list = (title, lines) => {
    if (lines.length > 0) parts.push([`${title}:`, ...lines].join('\n'));
  };
  list(
    'slower by more than the noise',
    slower.map((one) => line(one)),
  );
  list(
    'in the first file only',
    missing.map((name) => `            ${name}`),
  );
  list(
    'faster by more than the noise',
    faster.map((one) => line(one)),
  );
  list(
    `too noisy to show a rise of ${tooNoisy * 100}%: run again on an idle machine`,
    unclear.map((one) => line(one)),
  );
  if (reads !== undefined && Math.abs(reads - 1) > leastRise) {
    parts.push(`the pure read itself took ${percent(reads)}: the machine was not the same, or not as idle`);
  }
  parts.push(`${compared} compared, ${slower.length} slower, ${faster.length} faster, ${missing.length} missing`);
  return parts.join('\n');
}

async function main() {
  const { values: options, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'any-machine': { type: 'boolean', default: false },
      'allow-missing': { type: 'boolean', default: false },
    },
  });
  if (positionals.length !== 2) throw new Error('usage: node bench/compare.mjs BEFORE.json AFTER.json');
  const [before, after] = await Promise.all(positionals.map((path) => readResults(path)));
  const problem = mismatch(before, after, { anyMachine: options['any-machine'] });
  if (problem !== undefined) throw new Error(problem);
  const comparison = compareRuns(before, after);
  console.log(describeComparison(comparison));
  const { slower, missing, unclear, compared } = comparison;
  let doubtful = unclear.length > compared / 2;
  for (const [at, run] of [before, after].entries()) {
    const against = doubts(run);
    if (against.length === 0) continue;
    doubtful = true;
    console.log(`do not rely on ${positionals[at]}: ${against.join('; ')}`);
  }
  if (compared === 0) throw new Error('the files have no measure in common');
  if (slower.length > 0 || (missing.length > 0 && !options['allow-missing'])) return 1;
  if (!doubtful) return 0;
  console.log(
    'status 3: nothing is seen to be slower, but these runs cannot show it: run both again, in full, on an idle machine',
  );
  return 3;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    process.exitCode = await main();
  } catch (error) {
    console.error(`compare: ${error.message}`);
    process.exitCode = 2;
  }
}
