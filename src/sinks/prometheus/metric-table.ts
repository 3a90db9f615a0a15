// Every metric that goes to Prometheus, once: what /metrics writes, and what the dashboard and the alerts are made of.
import { ALL_SCORE_FIGURES, ALL_TEXT_FIGURES } from '../../metrics/reporting/explanations.js';
import { gaugesOf } from '../../metrics/reporting/shown-figures.js';
import { SAMPLES } from '../page-keys.js';

export type MetricType = 'gauge' | 'counter';

export interface MetricRow {
  readonly name: string;
  readonly type: MetricType;
  readonly help: string;
  readonly labels: readonly string[];
}

/** A figure of a sample: its gauge, and the logged key behind the label of the sample. */
export interface FigureRow extends MetricRow {
  readonly scores?: string;
  readonly texts?: string;
}

/** Labelled by run and sample (first_turn, trajectory, turn; text: from texts only). */
export const FIGURES: readonly FigureRow[] = figureRows();

/** A gauge is one row, whether scores or texts have it, or both. */
function figureRows(): FigureRow[] {
  const rows = new Map<string, FigureRow>();
  for (const [source, figures] of [
    ['scores', ALL_SCORE_FIGURES],
    ['texts', ALL_TEXT_FIGURES],
  ] as const) {
    for (const [key, { name, help = '' }] of gaugesOf(figures)) {
      const known = rows.get(name) ?? { name: `collapsar_${name}`, type: 'gauge', help, labels: ['run', 'sample'] };
      rows.set(name, { ...known, [source]: key });
    }
  }
  return [...rows.values()];
}

/** A figure of the step as a whole. */
export interface StepRow extends MetricRow {
  readonly key: string;
}

const ofStep = (name: string, help: string, key: string): StepRow => {
  return { name: `collapsar_${name}`, type: 'gauge', help, labels: ['run'], key };
};

export const STEP_FIGURES = [
  ofStep('kept_prompts_ratio', 'Share of the prompts that the filter keeps.', 'rollout/filter_kept_ratio'),
  ofStep('reward_mean', 'Mean reward of the batch.', 'rollout/in_group_reward_mean'),
  ofStep('reward_std', 'Mean over prompts of the standard deviation of their rewards.', 'rollout/in_group_reward_std'),
] as const;

const row = (name: string, type: MetricType, help: string, ...labels: string[]): MetricRow => {
  return { name: `collapsar_${name}`, type, help, labels };
};

/** What the judge says, and where the run is. */
export const STATE = {
  miStart: row('mi_start_ratio', 'gauge', "I(X;Z) as a share of the run's own start.", 'run'),
  entropyStart: row('entropy_start_ratio', 'gauge', "H(Z|X) as a share of the run's own start.", 'run'),
  prompts: row('prompts', 'gauge', 'Prompts of the step by why their rewards vary or do not.', 'run', 'cause'),
  regime: row('regime', 'gauge', '1 for the regime that the run is in.', 'run', 'regime'),
  active: row(
    'verdict_active',
    'gauge',
    '1 while a verdict holds, 0 when it no longer does.',
    'run',
    'kind',
    'severity',
  ),
  verdicts: row('verdicts_total', 'counter', 'Verdicts that were said.', 'run', 'kind', 'severity'),
  step: row('training_step', 'gauge', 'The last training step that was measured.', 'run'),
  time: row('last_step_timestamp_seconds', 'gauge', 'When that was, in Unix time.', 'run'),
  build: row('build_info', 'gauge', '1; the version is in the label.', 'version'),
} as const;

export const METRIC_TABLE: readonly MetricRow[] = [...FIGURES, ...STEP_FIGURES, ...Object.values(STATE)];

export const REGIMES = ['diverse', 'template_collapse', 'compressed', 'low_entropy_collapse', 'undecided'] as const;
export const CAUSES = ['varied', 'too_easy', 'too_hard', 'reward_blind', 'alike', 'unknown'] as const;

interface Place {
  readonly row: MetricRow;
  /** Label of the sample; of a figure of the step none. */
  readonly sample?: string;
}

/** Place of a value by its logged key. */
export const PLACES: ReadonlyMap<string, Place> = new Map<string, Place>([
  ...Object.entries(SAMPLES).flatMap(([label, sample]) =>
    FIGURES.flatMap((row): [string, Place][] => {
      const key = label === 'text' ? row.texts : row.scores;
      return key === undefined ? [] : [[`${label}/${key}`, { row, sample }]];
    }),
  ),
  ...STEP_FIGURES.map((row): [string, Place] => [row.key, { row }]),
]);
