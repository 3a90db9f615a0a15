// Reads the gradient norms that a monitor was given from the record of a step, by bucket of reward spread.
import type { StepRecord } from '../../step/step-record.js';
import type { GradientBucket, GradientStep } from '../report.js';

/** The reference's keys, of all groups or of those that the filter keeps (gradient_reporter.py). */
const KEY = /^grad_norm(?:_prefilter)?\/(bucket_\d+|all)\/(\w+)$/;

/** @returns undefined if the step has no norms */
export function gradientsOf(record: StepRecord): GradientStep | undefined {
  const found = new Map<string, Map<string, number>>();
  for (const [key, value] of Object.entries(record)) {
    const [, bucket, name] = KEY.exec(key) ?? [];
    if (bucket === undefined || name === undefined || typeof value !== 'number') continue;
    const figures = found.get(bucket) ?? new Map<string, number>();
    found.set(bucket, figures.set(name, value));
  }
  const buckets = [...found].flatMap(([name, figures]): GradientBucket[] => {
    const [task, regularization] = [figures.get('task'), figures.get('regularization')];
    if (task === undefined || regularization === undefined) return [];
    const of = (figure: string): number => figures.get(figure) ?? 0;
    const spread = { mean: of('reward_std_mean'), least: of('reward_std_min'), most: of('reward_std_max') };
    return [{ name, spread, task, regularization }];
  });
  if (buckets.length === 0) return undefined;
  const numberOf = ({ name }: GradientBucket): number => (name === 'all' ? 0 : Number(name.slice('bucket_'.length)));
  return { step: record.step, buckets: buckets.sort((a, b) => numberOf(a) - numberOf(b)) };
}
