// Reports for the tests of sinks: those of the shipped run that collapses, and any others.
import { analyze } from '../../src/analysis/analyze.js';
import { isCertaintyKey } from '../../src/metrics/figures/certainty.js';
import type { Sink } from '../../src/monitor/sinks/sink.js';
import { RunNames } from '../../src/sinks/run-names.js';
import { stepRecord } from '../../src/step/step-record.js';
import type { StepReport } from '../../src/step/step-report.js';
import { exampleRuns } from '../support/analysis-logs.js';

/** Of examples/data/collapse, every step; few permutations, for it is not about p-values. */
export async function collapseReports(): Promise<StepReport[]> {
  const names = new RunNames();
  const reports: StepReport[] = [];
  for await (const report of analyze(`${exampleRuns}collapse`, { permutations: 19 })) {
    reports.push({ ...report, run: names.nameOf(report) });
  }
  return reports;
}

/** What a monitor would report of a step that has these figures and nothing else. */
export function reportWith(of: Pick<StepReport, 'run' | 'step' | 'metrics'>): StepReport {
  const file = { file: 'monitor/step', directory: 'monitor', bytes: 0 };
  const nothing = { due: false, absent: {}, notes: [], remarks: [], samples: [], stops: [], lossScale: 1 };
  const part = (isWanted: boolean): Record<string, number> =>
    Object.fromEntries(Object.entries(of.metrics).filter(([key]) => isCertaintyKey(key) === isWanted));
  const report = { ...of, metrics: part(false), certainty: part(true), ...file, ...nothing };
  return { ...report, record: stepRecord(report) };
}

export async function giveAll(sink: Sink, reports: readonly StepReport[]): Promise<void> {
  for (const report of reports) await sink.step(report);
  await sink.close();
}

export const MI = 'collapse_first_turn_sample/mi_seq_estimate';
