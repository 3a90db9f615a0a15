// Writes reports to stdout as they come: one screen, tables for an issue, one JSON array, or one JSON object a line.
import type { Profile } from '../../metrics/step-metrics.js';
import type { StepReport } from '../../step/step-report.js';
import { markdownText } from './screen/markdown.js';
import type { TableOptions } from './screen/sample-table.js';
import { RunCollection, screenText } from './screen/screen.js';

export interface AnalysisOutput {
  report(report: StepReport): Promise<void>;
  /** After the last report. */
  end(): Promise<void>;
}

type Write = (text: string) => Promise<void>;

export function jsonLines(write: Write): AnalysisOutput {
  return {
    report: ({ record }) => write(`${JSON.stringify(record)}\n`),
    end: async () => {},
  };
}

/** Written as it grows, so that a run of any length passes through. */
export function jsonArray(write: Write): AnalysisOutput {
  let opened = false;
  return {
    async report({ record }) {
      await write(`${opened ? ',\n' : '[\n'}${JSON.stringify(record)}`);
      opened = true;
    },
    end: () => write(opened ? '\n]\n' : '[]\n'),
  };
}

/** All at the end, because the most severe run comes first, and trends are on one scale over all runs. */
export function tables(
  write: Write,
  profile: Profile,
  options: TableOptions,
  as: 'screen' | 'markdown',
): AnalysisOutput {
  const runs = new RunCollection(options);
  return {
    report: async (report) => runs.add(report),
    async end() {
      const text = (as === 'screen' ? screenText : markdownText)(runs.end(), profile, options);
      if (text !== '') await write(`${text}\n`);
    },
  };
}
