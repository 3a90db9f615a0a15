// Reports for the tests of sinks: those of the shipped run that collapses, and any others.
import { analyze } from '../../src/analysis/analyze.js';
import type { Sink, SinkReport } from '../../src/monitor/sinks/sink.js';
import { RunNames, sinkReport } from '../../src/sinks/report-of-step.js';
import { exampleRuns } from '../support/analysis-logs.js';

/** Of examples/data/collapse, every step; few permutations, for it is not about p-values. */
export async function collapseReports(): Promise<SinkReport[]> {
  const names = new RunNames();
  const reports: SinkReport[] = [];
  for await (const report of analyze(`${exampleRuns}collapse`, { permutations: 19 })) {
    reports.push(sinkReport(report, names.nameOf(report)));
  }
  return reports;
}

export async function giveAll(sink: Sink, reports: readonly SinkReport[]): Promise<void> {
  for (const report of reports) await sink.step(report);
  await sink.close();
}

export const MI = 'collapse_first_turn_sample/mi_seq_estimate';
