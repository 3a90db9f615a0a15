// A step of a run -> its figures in words, for who reads and for who listens.
import { REGIME_CODES, type RunData } from '../report.js';
import type { ChartTable } from './chart-option.js';
import { inWords, pText, shortNumber, withInterval } from './number-text.js';

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

export function stepWords({ steps, figures, regimes }: RunData, at: number): StepWords {
  const value = (name: string): number => figures[name]?.[at] ?? Number.NaN;
  const interval = (name: string): string =>
    withInterval(value(name), figures[`${name}_low`]?.[at], figures[`${name}_high`]?.[at]);
  return {
    step: steps[at] ?? Number.NaN,
    mi: interval('mi'),
    p: pText(value('mi_p')),
    entropy: shortNumber(value('entropy')),
    retrieval: interval('retrieval'),
    chance: shortNumber(value('chance')),
    reward: shortNumber(value('reward')),
    state: inWords(REGIME_CODES[regimes[at] ?? 0] || 'state not known'),
  };
}

/** `step 136: MI 0.480 [0.340, 0.620], p ≤ 0.001; H(Z|X) 2.36; retrieval …; template collapse` */
export function stepSentence(run: RunData, at: number, length: 'brief' | 'whole' = 'whole'): string {
  const { step, mi, p, entropy, retrieval, chance, reward, state } = stepWords(run, at);
  const { instrument, hasEntropy } = run.head;
  const rewards = run.figures.reward === undefined ? [] : [`reward ${reward}`];
  if (run.figures.measured?.[at] === 0) return `step ${step}: ${['not measured', ...rewards].join('; ')}`;
  const parts = [
    `${instrument === 'texts' ? 'MI bound' : 'MI'} ${mi}${p === '' ? '' : `, ${p}`}`,
    `${hasEntropy ? 'H(Z|X)' : 'novelty'} ${entropy}`,
    `retrieval ${retrieval}${length === 'brief' ? '' : `, chance ${chance}`}`,
    ...rewards,
    state,
  ];
  return `step ${step}: ${parts.join('; ')}`;
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
