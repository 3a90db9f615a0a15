// What is printed of a run: a line every so often, and every verdict when it is first said.
import type { TrainingStep } from './training-run.js';

const HEAD = 'step   open   maze   kept   H(Z|X)   I(X;Z)      95% interval  retrieval  a reasoning';

/** Steps in, lines out. */
export class RunStory {
  readonly #every: number;
  readonly #said = new Set<string>();
  #since: TrainingStep[] = [];

  /** @param every steps between two lines of the table */
  constructor(every: number) {
    this.#every = every;
  }

  get head(): string {
    return HEAD;
  }

  /** The lines to print after a step; often none. */
  tell(step: TrainingStep): string[] {
    this.#since.push(step);
    const { report } = step;
    const lines: string[] = [];
    if (report.due && (step.step === 1 || step.step % this.#every === 0 || step.ends !== undefined)) {
      lines.push(this.#row(step));
      this.#since = [];
    }
    for (const verdict of report.judgement?.verdicts ?? []) {
      if (verdict.severity === 'info' || this.#said.has(verdict.kind)) continue;
      this.#said.add(verdict.kind);
      lines.push(`     ${verdict.severity}: ${verdict.sentence}`);
    }
    return lines;
  }

  #row({ step, reasoning, report }: TrainingStep): string {
    const values = report.stepMetrics?.values ?? {};
    const batch = report.stepMetrics?.certainty.mi_seq_estimate?.batch;
    const interval =
      batch !== undefined && 'low' in batch ? `[${batch.low.toFixed(2)}, ${batch.high.toFixed(2)}]` : '–';
    const mean = (of: (step: TrainingStep) => number): number =>
      this.#since.reduce((sum, one) => sum + of(one), 0) / this.#since.length;
    const kept = mean((one) => one.report.filter?.kept.length ?? one.prompts);
    return [
      String(step).padStart(4),
      mean((one) => one.success.open)
        .toFixed(2)
        .padStart(5),
      mean((one) => one.success.maze)
        .toFixed(2)
        .padStart(5),
      kept.toFixed(1).padStart(5),
      figure(values.conditional_entropy_est).padStart(7),
      figure(values.mi_seq_estimate).padStart(7),
      interval.padStart(16),
      figure(values.retrieval_accuracy).padStart(9),
      reasoning,
    ].join('  ');
  }
}

function figure(value: number | undefined): string {
  return value === undefined ? '–' : value.toFixed(2);
}
