// Splits gradient norms by bucket of reward std into task and regularisation (RAGEN-2's gradient analysis): at low std
// the task gradient vanishes, and KL and entropy terms, equal for all prompts, move the policy to a template.
import { checkKnown } from '../../checks/argument-checks.js';
import { ArgumentError } from '../../checks/errors.js';
import { optionsObject } from '../../checks/options.js';
import { shown } from '../../checks/words.js';
import type { RewardBucket } from './reward-buckets.js';

/** Norms of the gradients that the rows of one bucket give, each loss term by itself, before any update. */
export interface GradientNorms {
  /** Norm of the policy loss's gradient. */
  readonly task: number;
  /** Norm of the KL penalty's. Default 0. */
  readonly kl?: number | undefined;
  /** Norm of the entropy bonus's. Default 0. */
  readonly entropy?: number | undefined;
}

/** By the name of the bucket; buckets may be left out. */
export type BucketGradients = Readonly<Record<string, GradientNorms>>;

/** Gradient norms of one bucket: the task’s, and that of regularisation. */
export interface BucketDecomposition {
  readonly bucket: string;
  /** Mean in-group reward std of the bucket. */
  readonly rewardStd: number;
  readonly task: number;
  /** kl + entropy, as the reference adds them: an upper bound of the norm of their sum. */
  readonly regularization: number;
  /** task / (task + regularization); null if both are 0. */
  readonly taskShare: number | null;
}

/** Which buckets of reward std the task moves, and which regularisation (RAGEN-2’s gradient analysis). */
export interface GradientDecomposition {
  /** By rising reward std, without `all`. */
  readonly buckets: readonly BucketDecomposition[];
  readonly all?: BucketDecomposition;
  /** Buckets that regularisation moves at least as much as the task does. */
  readonly regularizationDominated: readonly string[];
  readonly sentence: string;
}

/** @throws {ArgumentError} for a bucket that the step does not have, or a norm that cannot be one */
export function checkGradients(gradients: BucketGradients, buckets: readonly RewardBucket[], argument: string): void {
  const names = buckets.map(({ name }) => name);
  for (const [bucket, norms] of Object.entries(optionsObject(gradients, argument))) {
    if (!names.includes(bucket)) {
      throw new ArgumentError(
        `${argument}.${bucket}`,
        `this step has no such bucket; it has ${names.join(', ') || 'none'}`,
      );
    }
    const given = optionsObject(norms, `${argument}.${bucket}`);
    checkKnown(given, `${argument}.${bucket}`, ['task', 'kl', 'entropy']);
    for (const name of ['task', 'kl', 'entropy']) {
      const value = given[name];
      if (value === undefined && name !== 'task') continue;
      if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) {
        throw new ArgumentError(
          `${argument}.${bucket}.${name}`,
          `got ${shown(value)}, expected a norm: a number from 0 on`,
        );
      }
    }
  }
}

/** @param gradients as checkGradients() lets them through */
export function decomposeGradients(
  buckets: readonly RewardBucket[],
  gradients: BucketGradients,
): GradientDecomposition {
  const found = buckets.flatMap((bucket): BucketDecomposition[] => {
    const norms = Object.hasOwn(gradients, bucket.name) ? gradients[bucket.name] : undefined;
    if (norms === undefined) return [];
    const { task, kl = 0, entropy = 0 } = norms;
    const regularization = kl + entropy;
    const total = task + regularization;
    const taskShare = total > 0 ? task / total : null;
    return [{ bucket: bucket.name, rewardStd: bucket.rewardStd.mean, task, regularization, taskShare }];
  });
  const all = found.find(({ bucket }) => bucket === 'all');
  const split = found.filter(({ bucket }) => bucket !== 'all');
  const dominated = split.filter(({ taskShare }) => taskShare !== null && taskShare <= 0.5).map(({ bucket }) => bucket);
  const moved = split.filter(({ taskShare }) => taskShare !== null).length;
  const sentence = sentenceOf(split.length, moved, dominated);
  return { buckets: split, ...(all && { all }), regularizationDominated: dominated, sentence };
}

/** @param moved buckets that have a gradient at all */
function sentenceOf(buckets: number, moved: number, dominated: readonly string[]): string {
  if (buckets === 0)
    return 'No norms of single buckets of reward std were given: there is nothing to set against one another.';
  if (dominated.length > 0) {
    return (
      `Regularisation moves the policy at least as much as the task does in ${dominated.length} of ${buckets} buckets of ` +
      `reward std (${dominated.join(', ')}): filter these prompts out, or lower KL and entropy coefficients.`
    );
  }
  if (moved === 0) return `All gradients are 0: nothing moves the policy in any of ${buckets} buckets of reward std.`;
  const which =
    moved === buckets
      ? `all of ${buckets} buckets of reward std`
      : `the ${moved} of ${buckets} buckets of reward std that have one`;
  return `The task's gradient is the larger one in ${which}.`;
}

/** The norms under the reference's keys, and the decomposition beside them. */
export function gradientMetrics(
  buckets: readonly RewardBucket[],
  gradients: BucketGradients,
  decomposition: GradientDecomposition,
  prefix: string,
): Record<string, number> {
  const metrics: Record<string, number> = {};
  for (const { name, rows, tokens } of buckets) {
    const norms = Object.hasOwn(gradients, name) ? gradients[name] : undefined;
    if (norms === undefined) continue;
    for (const [component, norm] of Object.entries(norms)) {
      if (norm === undefined) continue;
      metrics[`${prefix}/${name}/${component}`] = norm;
      metrics[`${prefix}/${name}/per_sample/${component}`] = norm / rows.length;
      if (tokens !== undefined && tokens > 0) metrics[`${prefix}/${name}/per_token/${component}`] = norm / tokens;
    }
  }
  const { all, buckets: split } = decomposition;
  for (const { bucket, regularization, taskShare } of all ? [all, ...split] : split) {
    metrics[`${prefix}/${bucket}/regularization`] = regularization;
    if (taskShare !== null) metrics[`${prefix}/${bucket}/task_share`] = taskShare;
  }
  return metrics;
}
