// Picks the figures that the page shows from the record of a step, whichever instrument measured them.
import { ROW_FIGURES } from '../../metrics/figures/beside-figures.js';
import { ALL_SCORE_FIGURES, ALL_TEXT_FIGURES } from '../../metrics/reporting/explanations.js';
import { reportKeys } from '../../metrics/reporting/shown-figures.js';
import type { StepRecord } from '../../step/step-record.js';
import type { FigureName } from '../report.js';

/** Labels of a record's figures, the one that the judge reads first. */
const SCORES = ['collapse_first_turn_sample', 'collapse_trajectory_sample', 'collapse_turn_sample'] as const;
const TEXT = 'text';

export interface InstrumentOfRun {
  readonly instrument: 'scores' | 'texts';
  readonly hasEntropy: boolean;
  readonly label: string;
}

/** What a run's first record says of all: a run is measured by one instrument. */
export function instrumentOf(record: StepRecord): InstrumentOfRun | undefined {
  const keys = Object.keys(record);
  const label = SCORES.find((name) => keys.some((key) => key.startsWith(`${name}/`)));
  if (label !== undefined) return { instrument: 'scores', hasEntropy: true, label };
  if (!keys.some((key) => key.startsWith(`${TEXT}/`))) return undefined;
  return { instrument: 'texts', hasEntropy: `${TEXT}/conditional_entropy_est` in record, label: TEXT };
}

/** Logged keys by figure, without the label. */
const OF_SCORES = new Map(reportKeys(ALL_SCORE_FIGURES));
const OF_TEXTS = new Map(reportKeys(ALL_TEXT_FIGURES));

/** Whole keys: they are the same for all instruments. */
const OF_STEP: readonly (readonly [string, string])[] = [
  ['reward', 'rollout/in_group_reward_mean'],
  ['reward_std', 'rollout/in_group_reward_std'],
  ['kept', 'rollout/filter_kept_ratio'],
  ['gate', 'rollout/filter_gate'],
  ...reportKeys(ROW_FIGURES),
  ...[...OF_TEXTS].filter(([name]) => !OF_SCORES.has(name)).map(([name, key]) => [name, `${TEXT}/${key}`] as const),
];

/** Logged key of each figure. */
export function keysOf({ instrument, hasEntropy, label }: InstrumentOfRun): [FigureName, string][] {
  const keys = new Map(instrument === 'scores' ? OF_SCORES : OF_TEXTS);
  if (!hasEntropy) keys.set('entropy', 'sibling_novelty');
  const logged = new Map([...keys].map(([name, key]) => [name, `${label}/${key}`]));
  return [...new Map([...logged, ...OF_STEP])] as [FigureName, string][];
}

/** Of an environment of a mixed batch: its dependence, and the most that there could be, ln of its prompts. */
const OF_ENVIRONMENT = ['mi', 'bound'] as const;

/** Figures of the environments that a record has, [name on the page, value]: `environment/<name>/mi`. */
export function environmentFigures(record: StepRecord, of: InstrumentOfRun): [string, number][] {
  const logged = of.instrument === 'scores' ? OF_SCORES : OF_TEXTS;
  return Object.entries(record).flatMap(([key, value]) => {
    const [, place, rest] = /^(environment\/[^/]+)\/(.*)$/.exec(key) ?? [];
    const figure = OF_ENVIRONMENT.find((name) => rest === `${of.label}/${logged.get(name)}`);
    return figure === undefined || typeof value !== 'number' ? [] : [[`${place}/${figure}`, value] as [string, number]];
  });
}
