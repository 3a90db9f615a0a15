// Reports as they come -> stdout, as tables, one JSON array, or one JSON object a line.
import { recordLine } from '../analysis/record-line.js';
import type { StepReport } from '../analysis/step-report.js';
import type { Profile } from '../metrics/step-metrics.js';
import { RunTable } from './run-table.js';
import type { TableOptions } from './sample-table.js';
import { wrap } from './text-wrap.js';

export interface AnalysisOutput {
  report(report: StepReport): Promise<void>;
  /** After the last report. */
  end(): Promise<void>;
}

type Write = (text: string) => Promise<void>;

export function jsonLines(write: Write): AnalysisOutput {
  return {
    report: ({ record }) => write(recordLine(record)),
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

/** A table a run, each as soon as the run is complete, because columns are as wide as their widest cell. */
export function tables(write: Write, profile: Profile, options: TableOptions): AnalysisOutput {
  let table: RunTable | undefined;
  let any = false;
  const flush = async () => {
    if (table === undefined) return;
    await write(`${any ? '\n' : ''}${table.text()}\n`);
    any = true;
    table = undefined;
  };
  return {
    async report(report) {
      if (table?.isOf(report) === false) await flush();
      if (table === undefined) table = new RunTable(report, options);
      else table.add(report);
    },
    async end() {
      await flush();
      if (any && !options.chosen) await write(`\n${LEGEND[profile].map(styled(options)).join('\n')}\n`);
    },
  };
}

const styled = (options: TableOptions) => (line: string) => options.paint('dim', wrap(line, options.width));

const COLLAPSE =
  'Template collapse: MI and retrieval fall towards chance while H(Z|X) holds or rises. Reasoning is still varied, ' +
  'but it no longer depends on the prompt.';
const MORE = 'All metrics: --json or --jsonl; what each means: docs/metrics.md.';

const LEGEND: Readonly<Record<Profile, readonly string[]>> = {
  strict: [
    'H(Z|X): spread of the reasoning given its prompt, nats a token. MI: what the reasoning tells about its prompt, nats a ' +
      'response, with the interval for these very prompts. retrieval: share of responses that fit their own prompt best. ' +
      'p: how often a policy that ignores the prompt would do as well by chance (above .05 the figure may be chance). ' +
      'z: MI a token against the spread between responses. ' +
      'state, against the first steps of the run: D diverse, T template collapse, C compressed, L low-entropy collapse.',
    COLLAPSE,
    `${MORE} Verdicts: docs/verdicts.md.`,
  ],
  ragen: [
    'H(Z|X): spread of the reasoning given its prompt, nats a token. MI/token: mi_estimate, MI: mi_seq_estimate of the ' +
      'reference. retrieval: share of responses that fit their own prompt best. z: mi_zscore of the reference. ' +
      'No figure has an interval here: see --profile strict.',
    COLLAPSE,
    MORE,
  ],
};
