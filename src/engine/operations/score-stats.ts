// engine.scoreStats: options, checks, native call, result.

import { optionNames } from '../../checks/argument-checks.js';
import type { OperationOptions } from '../../checks/operation-options.js';
import type { EngineCore } from '../engine-core.js';
import { type HeldBuffers, noteEngineMemory } from '../memory.js';
import type { NativeResults, Settle } from '../native.js';
import type { Tensor } from '../tensor/tensor.js';
import { matrixArguments } from '../tensor/tensor-arguments.js';
import { viewTensor } from '../tensor/tensor-view.js';
import type { DeviceRowStats, RowLabels, RowStats } from './row-stats.js';
import { labelArguments, staysOnDevice, topKOf } from './score-options.js';

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

const STATS_OPTIONS = optionNames<DeviceScoreStatsOptions>({
  topK: true,
  out: true,
  own: true,
  lengths: true,
  signatures: true,
  signal: true,
  onProgress: true,
});

/** Engine.scoreStats() */
export async function scoreStats(
  engine: EngineCore,
  sums: Tensor,
  options: ScoreStatsOptions | DeviceScoreStatsOptions,
): Promise<RowStats | DeviceRowStats> {
  engine.begin('scoreStats', options, STATS_OPTIONS);
  const onDevice = staysOnDevice(options);
  const view = viewTensor(sums, 'sums', [2], 'scores [R, P]', engine.device, 'scoreStats');
  const labels = labelArguments(options, 'options');
  const topK = topKOf(options);
  const start = (settle: Settle, held: HeldBuffers): number =>
    engine.native.scoreStats(settle, ...matrixArguments(view, 'sums', held), ...labels, topK, onDevice);
  if (onDevice) return engine.gpu('scoreStats').keep<DeviceRowStats>('scoreStats', options, start);
  return engine.jobs.run<NativeResults['scoreStats'], RowStats>('scoreStats', options, start, (stats) => {
    noteEngineMemory(stats.matchedSeq);
    return stats;
  });
}
