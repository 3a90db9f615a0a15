// Where reports go: a dashboard, a file. What a sink is given, and what it must do.
import type { Judgement, RunSummary } from '../../verdicts/index.js';
import type { MonitorReport } from '../monitor-report.js';
import type { StepExcerpts } from '../prompts/excerpts.js';
import type { PromptMatrix, PromptReport } from '../prompts/prompt-findings.js';

/** One finished step, as every sink is given it. */
export interface SinkReport {
  /** Name of the run: no two runs that go to one sink have the same. */
  readonly run: string;
  readonly step: number;
  /**
   * Figures under their logged keys, such as `collapse_first_turn_sample/mi_seq_estimate`; NaN where one is not a
   * number.
   */
  readonly metrics: Readonly<Record<string, number>>;
  /** Regime, verdicts and triage (`strict` only). */
  readonly judgement?: Judgement | undefined;
  /** One entry a prompt (`strict` only, and where a sink `readsPrompts`). */
  readonly prompts?: readonly PromptReport[] | undefined;
  /** The same of each prompt's rows under every prompt; missing where there are no figures, or too many prompts. */
  readonly matrix?: PromptMatrix | undefined;
  /** Some of its rollouts, to be read: where the same holds, and texts were given. */
  readonly excerpts?: StepExcerpts | undefined;
  /** Verdicts of the run so far, and what went along with success; there where `judgement` is. */
  readonly summary?: (() => RunSummary) | undefined;
  /** Everything that a monitor said of the step; missing where it was read from logs. */
  readonly report?: MonitorReport | undefined;
}

/**
 * A place that reports go to. A sink that rejects is warned about once; training goes on.
 * @example
 * import { Monitor, type Sink } from 'collapsar';
 *
 * const printing: Sink = {
 *   step: async ({ run, step, metrics }) => console.log(run, step, metrics['text/mi_bound']),
 *   close: async () => {},
 * };
 * const monitor = new Monitor({ sinks: [printing], run: 'grpo-7b' });
 */
export interface Sink {
  /** Whether it reads `prompts`, `matrix` or `excerpts`. Where no sink does, they are not computed. */
  readonly readsPrompts?: boolean;
  /** Steps of a run come by rising number, and the next one only when this has settled. */
  step(report: SinkReport): Promise<void>;
  /** After the last step: writes what is held back. */
  close(): Promise<void>;
}
