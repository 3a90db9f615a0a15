// The reports of one run -> what a person reads: a heading, a table of each sample, and what its judge and the filter say.
import { dirname } from 'node:path';
import type { StepReport } from '../analysis/step-report.js';
import { counted } from '../engine/counted.js';
import { escaped, printable } from '../logs/printable.js';
import type { Profile } from '../metrics/step-metrics.js';
import { RunVerdicts } from './run-verdicts.js';
import { SampleTable, type TableOptions } from './sample-table.js';

/** It takes in a report at a time, and holds of each no more than it shows. */
export class RunTable {
  readonly #options: TableOptions;
  readonly #samples = new Map<string, SampleTable>();
  readonly #verdicts: RunVerdicts;
  readonly #prompts = new Set<number>();
  #steps = 0;
  #first: Pick<StepReport, 'file' | 'run' | 'directory'> & { profile: Profile };

  /** @param first report of the run */
  constructor(first: StepReport, options: TableOptions) {
    this.#options = options;
    this.#verdicts = new RunVerdicts(options.paint, options.width);
    const { file, run, directory } = first;
    this.#first = { file, run, directory, profile: first.metrics[0]?.profile ?? 'strict' };
    this.add(first);
  }

  isOf({ run, directory }: StepReport): boolean {
    return this.#first.run === run && this.#first.directory === directory;
  }

  add(report: StepReport): void {
    this.#steps++;
    this.#prompts.add(report.metrics[0]?.columns.total ?? 0);
    for (const metrics of report.metrics) {
      let sample = this.#samples.get(metrics.label);
      if (sample === undefined) {
        sample = new SampleTable(metrics, this.#options);
        this.#samples.set(metrics.label, sample);
      }
      sample.add(report, metrics);
    }
    this.#verdicts.add(report);
  }

  text(): string {
    const isOne = this.#samples.size === 1;
    const parts = [...this.#samples].map(([label, sample]) => sample.text(isOne ? undefined : label));
    const verdicts = this.#verdicts.text();
    return [this.#heading(), ...parts, ...(verdicts === undefined ? [] : [verdicts])].join('\n\n');
  }

  #heading(): string {
    const { paint } = this.#options;
    const { file, run, profile } = this.#first;
    const prompts = [...this.#prompts].sort((a, b) => a - b);
    const range = prompts.length > 1 ? `${prompts[0]} to ${prompts.at(-1)}` : `${prompts[0]}`;
    const steps = counted(this.#steps, 'steps');
    const facts = `${steps}, ${range} ${range === '1' ? 'prompt' : 'prompts'} a step, profile ${profile}`;
    return `${paint('bold', printable(run))}  ${paint('dim', `${escaped(dirname(file))}: ${facts}`)}`;
  }
}
