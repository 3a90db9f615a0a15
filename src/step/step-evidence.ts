// Builds the judge's reading of a step from its rows and metrics.
import { ArgumentError } from '../checks/errors.js';
import { argumentProblem } from '../checks/words.js';
import type { Engine } from '../engine/engine.js';
import type { FilterResult } from '../filter/filter-result.js';
import type { TextMetrics } from '../metrics/text-metrics.js';
import { checkEvidence } from '../verdicts/evidence/check-evidence.js';
import type { RowEvidence, StepEvidence } from '../verdicts/evidence/step-evidence.js';
import type { JudgeSettings } from '../verdicts/judge-options.js';
import { readCheckedOn, type StepReading } from '../verdicts/step-reading.js';
import type { SettledRows } from './outcomes/step-buckets.js';
import type { MeasuredSamples } from './sample-metrics.js';

export interface Evidence {
  readonly step: number;
  readonly rows: SettledRows;
  readonly samples: MeasuredSamples;
  readonly texts: TextMetrics | undefined;
  readonly filter: FilterResult | undefined;
  /** What the rollouts tell without scores, where that is logged. */
  readonly rollouts: Readonly<Record<string, number>> | undefined;
}

export function evidenceOf({ step, rows, samples, texts, filter, rollouts }: Evidence): StepEvidence {
  const { groups, rewards, outcomes, correct, actions, episodes, turns, ablated, reasoningSwaps, figures } = rows;
  const {
    samples: [metrics],
    matched,
  } = samples;
  const isComputed = metrics !== undefined || texts !== undefined;
  return {
    step,
    metrics,
    rows: { groups, rewards, outcomes, actions, episodes, turns, matched, ablated, reasoningSwaps },
    filter,
    // Success in training and in validation are two series: where the first is given, the judge reads it off the
    // outcomes.
    success: correct
      ? meanOf(correct.map((value) => (value ? 1 : 0)))
      : outcomes === undefined
        ? meanOf(Object.values(rows.success ?? {}))
        : undefined,
    // They are correlated with success: once a computed step, as the metrics are.
    figures: rollouts && isComputed ? { ...rollouts, ...figures } : figures,
  };
}

function meanOf(values: ArrayLike<number>): number | undefined {
  if (values.length === 0) return undefined;
  return Array.from(values).reduce((total, value) => total + value, 0) / values.length;
}

/** What columns are called in a step file. */
const TENSORS: { readonly [Column in keyof RowEvidence]?: string } = {
  reasoningSwaps: 'action_logprobs',
  turns: 'turn',
  ablated: 'ablated_logprobs',
};

/**
 * @param leaveOut called with a column that does not fit, which costs what is made of it; undefined: it is an error
 * @throws {ArgumentError} naming what does not fit
 */
export async function readStep(
  engine: () => Promise<Engine>,
  evidence: StepEvidence,
  settings: JudgeSettings,
  leaveOut: ((column: string, problem: string) => void) | undefined,
  signal: AbortSignal | undefined,
): Promise<StepReading> {
  const rows: Record<string, unknown> = { ...evidence.rows };
  for (;;) {
    try {
      const usable = { ...evidence, rows: rows as unknown as RowEvidence };
      checkEvidence(usable);
      return await readCheckedOn(engine, usable, settings, signal);
    } catch (error) {
      if (leaveOut === undefined || !(error instanceof ArgumentError)) throw error;
      const [, column = ''] = /^evidence\.rows\.(\w+)$/.exec(error.argument) ?? [];
      if (rows[column] === undefined || column === 'groups') throw error;
      rows[column] = undefined;
      leaveOut(TENSORS[column as keyof RowEvidence] ?? column, argumentProblem(error));
    }
  }
}
