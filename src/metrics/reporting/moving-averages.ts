// Adds the run's moving averages to a step's metrics: the only part that depends on earlier steps, and so is added when
// they are known.
import { averagedFigures } from '../figures/step-figures.js';
import type { StepMetrics } from '../step-metrics.js';
import type { RunningState } from './running-state.js';

/**
 * @param state takes in this step
 * @param step training step, for the time-aware average of `strict`. Default: one more than the last.
 */
export function withAverages(metrics: StepMetrics, state: RunningState, step: number | undefined): StepMetrics {
  const { profile, label, spread } = metrics;
  if (spread === undefined) return metrics;
  const average = state.update(profile, label, spread.current, profile === 'strict' ? step : undefined);
  const averages = averagedFigures(profile, spread, average);
  const values = { ...metrics.values };
  const logged = { ...metrics.logged };
  for (const [key, value] of Object.entries(averages)) {
    values[key] = value;
    logged[`${label}/${key}`] = value;
  }
  return { ...metrics, values, logged };
}
