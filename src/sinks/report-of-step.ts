// A step of an analysis -> what sinks are given.
import type { StepRecord, StepReport } from '../analysis/step-report.js';
import type { SinkReport } from '../monitor/sinks/sink.js';

/** Gives runs of one name in several folders names of their own, in the order in which they come. */
export class RunNames {
  readonly #names = new Map<string, string>();
  readonly #taken = new Set<string>();

  nameOf({ run, directory }: Pick<StepReport, 'run' | 'directory'>): string {
    const key = `${directory}\n${run}`;
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    let name = run;
    for (let at = 2; this.#taken.has(name); at++) name = `${run} (${at})`;
    this.#taken.add(name);
    this.#names.set(key, name);
    return name;
  }
}

/** @param name of its run, of RunNames */
export function sinkReport(
  report: Pick<SinkReport, 'step' | 'judgement' | 'prompts' | 'matrix' | 'excerpts' | 'summary'> & {
    readonly record: StepRecord;
  },
  name: string,
): SinkReport {
  const metrics: Record<string, number> = {};
  const { file: _, step, run: __, ...parts } = report.record;
  for (const [key, value] of Object.entries(parts)) {
    if (typeof value === 'number') metrics[key] = value;
    // A record has no NaN: where it has nothing, there is none.
    else if (value === null) metrics[key] = Number.NaN;
  }
  const { judgement, prompts, matrix, excerpts, summary } = report;
  return { run: name, step, metrics, judgement, prompts, matrix, excerpts, summary };
}
