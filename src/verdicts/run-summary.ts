// Summarises what a judge knows of a run: its verdicts, its last regime, and how figures correlate with success.

import type { Regimes } from './regimes.js';
import { type CorrelationPair, correlate } from './statistics/correlation.js';
import type { FigureHistory } from './statistics/figure-history.js';
import type { Regime } from './verdict.js';
import type { RunVerdict, VerdictLog } from './verdict-log.js';

/** How a figure went with success over the steps of a run. */
export interface FigureCorrelation extends CorrelationPair {
  readonly figure: string;
}

/** A run so far: its verdicts, and what went along with success. */
export interface RunSummary {
  readonly firstStep: number | null;
  readonly lastStep: number | null;
  /** Steps taken in. */
  readonly steps: number;
  /** The regime of the last step that had one, and since when. */
  readonly regime: { readonly name: Regime; readonly since: number } | null;
  /** In the order in which they were first said. */
  readonly verdicts: readonly RunVerdict[];
  readonly correlations: {
    /** The figure that all others are held against. */
    readonly against: string;
    /** By falling |Spearman|. */
    readonly figures: readonly FigureCorrelation[];
    /** Reasons by figure of a missing correlation. */
    readonly absent: Readonly<Record<string, string>>;
  };
}

interface RunState {
  readonly firstStep: number | null;
  readonly lastStep: number | null;
  readonly steps: number;
  readonly regimes: Regimes;
  readonly verdicts: VerdictLog;
  readonly figures: FigureHistory;
  readonly against: string;
}

export function summarize({ firstStep, lastStep, steps, regimes, verdicts, figures, against }: RunState): RunSummary {
  const found: FigureCorrelation[] = [];
  const absent: Record<string, string> = {};
  for (const figure of figures.names) {
    if (figure === against) continue;
    const pair = correlate(figures.values(figure), figures.values(against));
    if (typeof pair === 'string') absent[figure] = pair;
    else found.push({ figure, ...pair });
  }
  // Equal ones by name: a saved object may name its figures in another order.
  found.sort((a, b) => Math.abs(b.spearman.estimate) - Math.abs(a.spearman.estimate) || (a.figure < b.figure ? -1 : 1));
  return {
    firstStep,
    lastStep,
    steps,
    regime: regimes.current,
    verdicts: verdicts.all,
    correlations: { against, figures: found, absent },
  };
}
