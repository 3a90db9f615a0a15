// engine.scoreStats: options, checks, native call, result.

import type { OperationOptions } from '../../checks/operation-options.js';
import { is, OPERATION, type OptionTable } from '../../checks/options.js';
import type { EngineCore } from '../engine-core.js';
import { type HeldBuffers, noteEngineMemory } from '../memory.js';
import type { NativeResults, Settle } from '../native.js';
import type { Tensor } from '../tensor/tensor.js';
import { matrixArguments, viewTensor } from '../tensor/tensor-view.js';
import type { DeviceRowStats, RowLabels, RowStats } from './row-stats.js';
import { labelArguments, ON_DEVICE, TOP_K } from './score-options.js';

/** Options of `engine.scoreStats`. */
export interface ScoreStatsOptions extends RowLabels, OperationOptions {
  /** How many best columns to name, 0 to 8, in a second pass over the sums; cut to the number of columns. Default 0. */
  topK?: number | undefined;
}

/** Options of `engine.scoreStats` that leave its results on the GPU. */
export interface DeviceScoreStatsOptions extends ScoreStatsOptions {
  /** Leaves the statistics on the GPU. */
  out: 'device';
}

const STATS_OPTIONS: OptionTable<DeviceScoreStatsOptions> = {
  topK: TOP_K,
  out: ON_DEVICE,
  own: is.any,
  lengths: is.any,
  signatures: is.any,
  ...OPERATION,
};

/** Engine.scoreStats() */
export async function scoreStats(
  engine: EngineCore,
  sums: Tensor,
  options: ScoreStatsOptions | DeviceScoreStatsOptions,
): Promise<RowStats | DeviceRowStats> {
  engine.begin('scoreStats', options, STATS_OPTIONS);
  const { topK = 0, out } = options as Partial<DeviceScoreStatsOptions>;
  const onDevice = out === 'device';
  const view = viewTensor(sums, 'sums', [2], 'scores [R, P]', engine.device, 'scoreStats');
  const labels = labelArguments(options, 'options');
  const start = (settle: Settle, held: HeldBuffers): number =>
    engine.native.scoreStats(settle, ...matrixArguments(view, 'sums', held), ...labels, topK, onDevice);
  if (onDevice) return engine.gpu('scoreStats').keep<DeviceRowStats>('scoreStats', options, start);
  return engine.jobs.run<NativeResults['scoreStats'], RowStats>('scoreStats', options, start, (stats) => {
    noteEngineMemory(stats.matchedSeq);
    return stats;
  });
}
