// Describes the figures of a step in words, by the instrument of its run, for readers and screen readers.
import { toldApart } from '../../checks/numbers.js';
import { REGIME_CODES, type RunData, type RunHead } from '../report.js';
import type { ChartTable } from './chart-option.js';
import { inWords, pText, shortNumber, withInterval } from './number-text.js';

type Measured = Pick<RunHead, 'instrument' | 'hasEntropy'>;

/** In a table or a line. */
export const miName = ({ instrument }: Measured): string => (instrument === 'texts' ? 'MI bound' : 'MI');
export const varietyName = ({ hasEntropy }: Measured): string => (hasEntropy ? 'H(Z|X)' : 'novelty');

/** Of an axis, without the unit. */
export const miAxis = ({ instrument }: Measured): string =>
  instrument === 'texts' ? 'I(X;Z), lower bound from texts' : 'I(X;Z)';
export const varietyAxis = ({ hasEntropy }: Measured): string => (hasEntropy ? 'H(Z|X)' : 'Novelty among siblings');

export const miTitle = (head: Measured): string => `${miAxis(head)}, nats a response`;
export const varietyTitle = (head: Measured): string =>
  `${varietyAxis(head)}, ${head.hasEntropy ? 'nats a token' : 'share of a text'}`;

/** What all of the runs say, each once: what is not measured alike shares no panel and no column. */
export function distinctWords(
  runs: readonly { readonly head: Measured }[],
  words: (head: Measured) => string,
): string[] {
  return [...new Set(runs.map(({ head }) => words(head)))];
}

export interface StepWords {
  readonly step: number;
  readonly mi: string;
  readonly p: string;
  readonly entropy: string;
  readonly retrieval: string;
  readonly chance: string;
  readonly reward: string;
  readonly state: string;
}

function stepWords({ steps, figures, regimes }: RunData, at: number, permutations: number): StepWords {
  const value = (name: string): number => figures[name]?.[at] ?? Number.NaN;
  const interval = (name: string): string =>
    withInterval(value(name), figures[`${name}_low`]?.[at], figures[`${name}_high`]?.[at]);
  return {
    step: steps[at] ?? Number.NaN,
    mi: interval('mi'),
    p: pText(value('mi_p'), permutations),
    entropy: shortNumber(value('entropy')),
    retrieval: interval('retrieval'),
    chance: shortNumber(value('chance')),
    reward: shortNumber(value('reward')),
    state: inWords(REGIME_CODES[regimes[at] ?? 0] || 'state not known'),
  };
}

/**
 * `step 136: MI 0.480 [0.340, 0.620], p ≤ 0.001; H(Z|X) 2.36; retrieval …; template collapse`
 * @param permutations behind p-values
 */
export function stepSentence(
  run: RunData,
  at: number,
  permutations: number,
  length: 'brief' | 'whole' = 'whole',
): string {
  const { step, mi, p, entropy, retrieval, chance, reward, state } = stepWords(run, at, permutations);
  const rewards = run.figures.reward === undefined ? [] : [`reward ${reward}`];
  if (run.figures.measured?.[at] === 0) return `step ${step}: ${['not measured', ...rewards].join('; ')}`;
  const parts = [
    `${miName(run.head)} ${mi}${p === '' ? '' : `, ${p}`}`,
    ...toldApartAt(run, at),
    `${varietyName(run.head)} ${entropy}`,
    `retrieval ${retrieval}${length === 'brief' ? '' : `, chance ${chance}`}`,
    ...rewards,
    state,
  ];
  return `step ${step}: ${parts.join('; ')}`;
}

/** Number of its prompts that a step distinguishes, in words: exp of its MI; nothing if it has none. */
export function toldApartAt({ figures }: Pick<RunData, 'figures'>, at: number): string[] {
  const [mi, bound] = [figures.mi?.[at] ?? Number.NaN, figures.bound?.[at] ?? Number.NaN];
  return Number.isNaN(mi) || !(bound > 0) ? [] : [toldApart(mi, Math.round(Math.exp(bound)))];
}

/** What the story draws. */
export function storyTable({ steps, figures, regimes }: RunData, range?: readonly [number, number]): ChartTable {
  const names = [
    ...['mi', 'mi_low', 'mi_high', 'mi_p', 'entropy', 'retrieval', 'retrieval_low', 'retrieval_high'],
    ...['chance', 'reward'],
  ].filter((name) => name in figures);
  const rows: (string | number)[][] = [];
  for (const [at, step] of steps.entries()) {
    if (range !== undefined && (step < range[0] || step > range[1])) continue;
    const values = names.map((name) => figures[name]?.[at] ?? Number.NaN);
    rows.push([step, ...values, inWords(REGIME_CODES[regimes[at] ?? 0] ?? '')]);
  }
  return { columns: ['step', ...names.map(inWords), 'state'], rows };
}

export interface EnvironmentLine {
  readonly name: string;
  /** Its dependence at every step of the run; NaN if it had none. */
  readonly mi: Float32Array;
  readonly last: number;
  /** Prompts at the last step that it was measured at. */
  readonly prompts: number;
  /** Of its own first five steps; NaN if these show nothing. */
  readonly share: number;
  /** Of the most severe verdict that holds and names it. */
  readonly severity: 'critical' | 'warning' | 'info' | undefined;
}

/** Environments of a run whose batches mix several: those that a verdict names first, then by what is left. */
export function environmentLines({ head, figures }: RunData): EnvironmentLine[] {
  const lines = Object.entries(figures).flatMap(([key, mi]): EnvironmentLine[] => {
    const [, place = '', escaped] = /^(environment\/([^/]+))\/mi$/.exec(key) ?? [];
    if (escaped === undefined) return [];
    const name = escaped.replaceAll('%2F', '/').replaceAll('%25', '%');
    const known = mi.filter((value) => !Number.isNaN(value));
    const start = known.slice(0, 5);
    const mean = start.reduce((sum, value) => sum + value, 0) / start.length;
    const last = known.at(-1) ?? Number.NaN;
    const bound = figures[`${place}/bound`]?.findLast((value) => !Number.isNaN(value)) ?? Number.NaN;
    const named = head.verdicts.filter(({ holds, environments = [] }) => holds && environments.includes(name));
    const severity = (['critical', 'warning', 'info'] as const).find((grade) =>
      named.some((verdict) => verdict.severity === grade),
    );
    return [
      { name, mi, last, prompts: Math.round(Math.exp(bound)), share: mean > 0 ? last / mean : Number.NaN, severity },
    ];
  });
  const gravity = ['critical', 'warning', 'info', undefined];
  const left = ({ share }: EnvironmentLine): number => (Number.isNaN(share) ? 1 : share);
  return lines.sort(
    (a, b) =>
      gravity.indexOf(a.severity) - gravity.indexOf(b.severity) || left(a) - left(b) || (a.name < b.name ? -1 : 1),
  );
}
