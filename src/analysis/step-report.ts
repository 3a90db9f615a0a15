// What the analysis of one step file gives: the metrics of every sample, and the same as one record for machines.
import type { StepMetrics } from '../metrics/step-metrics.js';
import type { MetricChoice } from './metric-choice.js';

/** One JSON object a step. Numbers that are NaN or infinite become null when it is written as JSON. */
export interface StepRecord {
  readonly file: string;
  readonly step: number;
  readonly run: string;
  /** Logged key -> why this metric cannot be given; left out where nothing is missing. `strict` only. */
  readonly absent?: Readonly<Record<string, string>>;
  /** What to know before trusting the figures; left out where there is nothing. `strict` only. */
  readonly notes?: readonly string[];
  readonly [metric: string]: number | string | null | readonly string[] | Readonly<Record<string, string>> | undefined;
}

export interface StepReport {
  /** Path of the file, as found. */
  readonly file: string;
  readonly step: number;
  readonly run: string;
  /** Absolute path of the directory whose files are this run. */
  readonly directory: string;
  /** Size of the file. */
  readonly bytes: number;
  /** One a sample label: first turns only, or first turns, trajectories and turns. */
  readonly metrics: readonly StepMetrics[];
  /** file, step, run, and the chosen metrics under their logged keys. */
  readonly record: StepRecord;
}

export function stepRecord(
  step: { readonly file: string; readonly step: number; readonly run: string },
  metrics: readonly StepMetrics[],
  choice: MetricChoice,
): StepRecord {
  const record: Record<string, StepRecord[string]> = { file: step.file, step: step.step, run: step.run };
  const absent: Record<string, string> = {};
  const notes = new Set<string>();
  for (const { profile, label, logged, absent: reasons, notes: remarks } of metrics) {
    for (const [key, value] of Object.entries(logged)) {
      if (choice.has(key)) record[key] = Number.isFinite(value) ? value : null;
    }
    // Under `ragen` a record is what the reference logs and nothing else.
    if (profile === 'ragen') continue;
    for (const [key, reason] of Object.entries(reasons)) {
      if (choice.has(`${label}/${key}`)) absent[`${label}/${key}`] = reason;
    }
    for (const remark of remarks) notes.add(metrics.length > 1 ? `${label}: ${remark}` : remark);
  }
  if (Object.keys(absent).length > 0) record.absent = absent;
  if (notes.size > 0) record.notes = [...notes];
  return record as StepRecord;
}
