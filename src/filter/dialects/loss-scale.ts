// What the loss is multiplied with when part of the batch was dropped.
import type { FilterSettings } from '../input/filter-options.js';

/**
 * none: 1. linear, sqrt: of the kept ratio (the reference's filter_loss_scaling). rho: the share that was asked for,
 * `value` of top_p and top_k (the paper's ρ); strategies without such a share take the kept ratio.
 * @returns 0 where nothing was kept and anything but `none` is asked for
 */
export function lossScale(kept: number, groups: number, settings: FilterSettings): number {
  const { lossScale: rule, strategy, value, dialect } = settings;
  if (rule === 'none') return 1;
  if (kept === 0) return 0;
  const ratio = kept / groups;
  if (rule === 'linear') return ratio;
  if (rule === 'sqrt') return Math.sqrt(ratio);
  const asksForShare = strategy === 'top_p' || (strategy === 'top_k' && dialect !== 'upstream');
  return asksForShare && dialect !== 'dapo' ? Math.min(1, value) : ratio;
}
