// What a sink is given of a step -> the record that `analyze --out` would write of it, with what only a monitor knows.
import { MetricChoice } from '../analysis/measuring/metric-choice.js';
import { type RecordValue, type StepRecord, stepRecord } from '../analysis/step-report.js';
import type { SinkReport } from '../monitor/sinks/sink.js';

const EVERYTHING = new MetricChoice(undefined);

/** @param file stands in the record as that of the step; its folder tells runs of one name apart */
export function recordOf({ run, step, metrics, judgement, report }: SinkReport, file: string): StepRecord {
  const { texts, filter, notes = [], absent = {} } = report ?? {};
  const findings = {
    metrics: [],
    notes,
    ...(texts && { texts }),
    ...(filter && { filter }),
    ...(judgement && { judgement }),
  };
  const record: Record<string, RecordValue | undefined> = {
    ...stepRecord({ file, step, run }, findings, EVERYTHING),
  };
  for (const [key, value] of Object.entries(metrics)) record[key] = Number.isFinite(value) ? value : null;
  if (Object.keys(absent).length > 0) record.absent = absent;
  return record as StepRecord;
}
