// Writes a run's measures as the table on stdout and as the Markdown of docs/internals/performance.md.

/**
 * @typedef {object} Measure  one runner's times on one case
 * @property {string} case
 * @property {'collapsar' | 'read' | 'lines' | 'arithmetic' | 'peer'} runner  rooflines: bench/suite/roofline.mjs
 * @property {string} [peer]
 * @property {number} threads
 * @property {string} isa            of collapsar's kernels
 * @property {number} elements
 * @property {number} bytes
 * @property {number} seconds        median of the rounds' medians; of `arithmetic` for one multiply-add of one lane
 * @property {number[]} rounds
 * @property {number} spread         half the range of the rounds over their median
 * @property {Record<string, number>} [errors]  a peer's largest differences from collapsar's results
 * @property {number} [ownSeconds]   collapsar's time in the rounds of a peer, with as many threads
 * @property {string} [smallerThan]  the case that this has fewer rows of, for a peer that the whole was too much for
 *
 * @typedef {object} Results  what a file under bench/results holds
 * @property {number} schema
 * @property {string} date           ISO 8601
 * @property {'bench' | 'peers'} suite
 * @property {boolean} quick
 * @property {ReturnType<typeof import('./machine.mjs').describeMachine>} machine
 * @property {{ before: number, after: number }} load  runnable processes per hardware thread
 * @property {{ minutes: number, usedSeconds: number, memoryBytes: number, peakMemoryBytes: number }} [budget]
 * @property {{ done: number, of: number }} [cases]  a run that was killed has not done all
 * @property {Record<string, string>} versions
 * @property {string} isa
 * @property {import('./call-cost.mjs').CallCost[]} calls
 * @property {Measure[]} measures
 * @property {string[]} [notes]   what was measured otherwise than asked
 * @property {string[]} skipped
 */

const digits = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

/** A time with the unit that suits it. */
export function showSeconds(seconds) {
  if (seconds >= 1) return `${digits(seconds)} s`;
  return seconds >= 1e-3 ? `${digits(seconds * 1e3)} ms` : `${digits(seconds * 1e6)} µs`;
}

/** The roofline that a measure is held against: of the same case, with as many threads. */
export function rooflineOf(measures, runner, { case: id, threads }) {
  return measures.find((one) => one.runner === runner && one.case === id && one.threads === threads);
}

/** Shares of the rooflines, as the table's columns have them: empty where there is none. */
function sharesOf(measures, one, isa) {
  const read = rooflineOf(measures, 'read', one);
  const lines = rooflineOf(measures, 'lines', one);
  const arithmetic = one.isa === isa ? rooflineOf(measures, 'arithmetic', one) : undefined;
  return [
    read === undefined ? '' : (read.seconds / one.seconds).toFixed(2),
    lines === undefined ? '' : (lines.seconds / one.seconds).toFixed(2),
    arithmetic === undefined ? '' : digits(one.seconds / one.elements / arithmetic.seconds),
  ];
}

/** Each peer of a measure with how many times longer it took. */
export function ratiosOf(measures, ours) {
  return measures
    .filter((one) => one.runner === 'peer' && one.case === ours.case && one.threads === ours.threads)
    .map((one) => ({ peer: one.peer, seconds: one.seconds, ratio: one.seconds / (one.ownSeconds ?? ours.seconds) }));
}

/** Peers that were faster, in words; some of them compute only a part of what collapsar does. */
export function unbeaten({ measures }) {
  return measures
    .filter(({ runner }) => runner === 'collapsar')
    .flatMap((ours) => {
      const threads = ours.threads === 1 ? '1 thread' : `${ours.threads} threads`;
      return ratiosOf(measures, ours)
        .filter(({ ratio }) => ratio < 1)
        .map(({ peer, ratio }) => `${ours.case}, ${threads}: ${peer} takes ${digits(ratio)}× as long`);
    });
}

/** @returns {string[][]} a heading, then a row for each of collapsar's measures */
export function measureTable(results) {
  const { measures, isa } = results;
  const heading = ['case', 'isa', 'threads', 'time', 'G el/s', 'GB/s', 'of read', 'of lines', 'slots', '±'];
  const withPeers = measures.some(({ runner }) => runner === 'peer');
  const rows = measures
    .filter(({ runner }) => runner === 'collapsar')
    .map((one) => {
      const row = [
        one.case,
        one.isa,
        String(one.threads),
        showSeconds(one.seconds),
        digits(one.elements / one.seconds / 1e9),
        digits(one.bytes / one.seconds / 1e9),
        ...sharesOf(measures, one, isa),
        `${(one.spread * 100).toFixed(0)}%`,
      ];
      if (!withPeers) return row;
      const ratios = ratiosOf(measures, one).map(({ peer, ratio }) => `${peer} ${digits(ratio)}×`);
      return [...row, ratios.join(', ')];
    });
  return [withPeers ? [...heading, 'peers: times as long'] : heading, ...rows];
}

/** @returns {string[][]} a heading, then a row for each cost of a call */
export function callTable({ calls }) {
  return [
    ['call', 'what is timed', 'time', '±'],
    ...calls.map(({ name, what, seconds, spread }) => [
      name,
      what,
      showSeconds(seconds),
      `${(spread * 100).toFixed(0)}%`,
    ]),
  ];
}

/**
 * Why these figures should not be relied on; empty if nothing speaks against them.
 * @param {Results} results
 */
export function doubts({ quick, load, measures, cases }) {
  const found = [];
  if (cases !== undefined && cases.done < cases.of) found.push(`it ended after ${cases.done} of ${cases.of} cases`);
  if (quick) found.push('a quick run: few rounds, inputs that a large cache may hold');
  if (load.before > 0.25) found.push(`other programs were running: ${load.before.toFixed(2)} a hardware thread`);
  const spreads = measures.map(({ spread }) => spread).sort((a, b) => a - b);
  const typical = spreads[spreads.length >> 1] ?? 0;
  if (typical > 0.1) found.push(`rounds differ by ±${(typical * 100).toFixed(0)}% (median over the measures)`);
  const single = measures.filter(({ rounds }) => rounds?.length === 1).length;
  if (single > measures.length / 10)
    found.push(`${single} of ${measures.length} measures have one round, and no spread`);
  return found;
}

/**
 * Remarks under the table: which inputs a cache holds, what the run took, what was measured otherwise than asked.
 * @param {Results} results
 */
function remarks({ machine, measures, budget, notes = [], skipped }) {
  const cache = machine.lastLevelCacheBytes ?? 0;
  const own = measures.filter(({ runner }) => runner === 'collapsar');
  const cached = [...new Set(own.filter(({ bytes }) => bytes <= cache).map((one) => one.case))];
  const mebibytes = (cache / 2 ** 20).toFixed(0);
  const gibibytes = (bytes) => (bytes / 2 ** 30).toFixed(1);
  return [
    ...(cached.length === 0
      ? []
      : [`fit the last-level cache (${mebibytes} MiB), as their reads do: ${cached.join('; ')}`]),
    ...(budget === undefined
      ? []
      : [
          `took ${(budget.usedSeconds / 60).toFixed(1)} of ${budget.minutes} minutes, ` +
            `at most ${gibibytes(budget.peakMemoryBytes)} of ${gibibytes(budget.memoryBytes)} GiB in all processes`,
        ]),
    ...notes,
    ...skipped.map((what) => `skipped: ${what}`),
  ];
}

/** Columns padded with spaces; numbers are few enough to read left-aligned. */
function plain(table) {
  const widths = table[0].map((_, column) => Math.max(...table.map((row) => row[column].length)));
  return table
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function markdown(table) {
  const line = (cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(table[0]), line(table[0].map(() => '---')), ...table.slice(1).map(line)].join('\n');
}

function origin({ date, machine, versions, isa, suite, quick }) {
  const libraries = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return {
    run: `npm run ${suite === 'peers' ? 'bench:peers' : 'bench'}${quick ? ' -- --quick' : ''}`,
    machine:
      `${machine.cpu}, ${machine.threads} hardware threads, ${(machine.memoryBytes / 2 ** 30).toFixed(0)} GiB, ` +
      `${machine.system}, ${isa}`,
    versions: libraries.join(', '),
    date: date.slice(0, 10),
  };
}

/** @param {Results} results */
export function toText(results) {
  const { run, machine, versions, date } = origin(results);
  const parts = [`${run}, ${date}\n${machine}\n${versions}`, plain(measureTable(results))];
  if (results.calls.length > 0) parts.push(plain(callTable(results)));
  const remarked = remarks(results);
  if (remarked.length > 0) parts.push(remarked.join('\n'));
  const against = doubts(results);
  if (against.length > 0) parts.push(`Do not rely on these figures: ${against.join('; ')}.`);
  return `${parts.join('\n\n')}\n`;
}

/** @param {Results} results */
export function toMarkdown(results) {
  const { run, machine, versions, date } = origin(results);
  const parts = [`\`${run}\`, ${date}. ${machine}. ${versions}.`];
  const against = doubts(results);
  if (against.length > 0) parts.push(`**Do not rely on these figures**: ${against.join('; ')}.`);
  parts.push(markdown(measureTable(results)));
  if (results.calls.length > 0) parts.push(markdown(callTable(results)));
  const faster = unbeaten(results);
  if (faster.length > 0)
    parts.push(`Faster than collapsar in this run:\n\n${faster.map((one) => `- ${one}`).join('\n')}`);
  const remarked = remarks(results);
  if (remarked.length > 0) parts.push(remarked.map((what) => `- ${what}`).join('\n'));
  return parts.join('\n\n');
}

/** The text with what stands between a suite's markers replaced. */
export function replaceSection(text, suite, content) {
  const [begin, end] = [`<!-- begin: ${suite} -->`, `<!-- end: ${suite} -->`];
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from < 0 || to < from) throw new Error(`no markers ${begin} … ${end}`);
  return `${text.slice(0, from + begin.length)}\n${content}\n${text.slice(to)}`;
}
