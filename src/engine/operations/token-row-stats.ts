// engine.tokenRowStats: options, checks, native call, result.

import type { OperationOptions } from '../../checks/operation-options.js';
import { is, OPERATION, type OptionTable } from '../../checks/options.js';
import type { EngineCore } from '../engine-core.js';
import { type HeldBuffers, noteEngineMemory } from '../memory.js';
import type { NativeResults, Settle } from '../native.js';
import type { DeviceTensor } from '../tensor/device-tensor.js';
import { copiedIntegers, integerArray, optionalIntegers } from '../tensor/integers.js';
import type { HostTensor, Integers, Tensor } from '../tensor/tensor.js';
import { tokenArguments, viewTensor } from '../tensor/tensor-view.js';
import type { ResultOnDevice } from './result-on-device.js';
import type { DeviceRowStats, RowStats } from './row-stats.js';
import { ON_DEVICE, TOP_K } from './score-options.js';
import { scoreStats } from './score-stats.js';
import { sumTokens, type TokenSums, tokenShapes } from './sum-tokens.js';

/** Options of `engine.tokenRowStats`. */
export interface TokenRowStatsOptions extends OperationOptions {
  /** Index of the prompt that each row was sampled from. */
  own: Integers;
  /** Packed scores only, as in SumTokensOptions. */
  offsets?: Integers | undefined;
  /** One number in [0, P) a prompt; equal numbers mean equivalent prompts. Default: all prompts differ. */
  signatures?: Integers | undefined;
  /** How many best prompts to name, 0 to 8, as for scoreStats. Default 0. */
  topK?: number | undefined;
}

/** Sums over tokens, and what each row says of its prompt. */
export interface TokenRowStats extends TokenSums {
  stats: RowStats;
}

/** Options of `engine.tokenRowStats` that leave its results on the GPU. */
export interface DeviceTokenRowStatsOptions extends TokenRowStatsOptions {
  /** Leaves the statistics and the sums on the GPU. */
  out: 'device';
}

/** The sums float64 [R, P] and the statistics on the GPU; `dispose()` is for both. */
export interface DeviceTokenRowStats extends TokenSums<DeviceTensor>, ResultOnDevice {
  stats: DeviceRowStats;
}

const TOKEN_STATS_OPTIONS: OptionTable<DeviceTokenRowStatsOptions> = {
  own: is.any,
  offsets: is.any,
  signatures: is.any,
  topK: TOP_K,
  out: ON_DEVICE,
  ...OPERATION,
};

/** Engine.tokenRowStats() */
export async function tokenRowStats(
  engine: EngineCore,
  logprobs: Tensor,
  lengths: Integers,
  options: TokenRowStatsOptions | DeviceTokenRowStatsOptions,
): Promise<TokenRowStats | DeviceTokenRowStats> {
  engine.begin('tokenRowStats', options, TOKEN_STATS_OPTIONS);
  const { topK = 0, out } = options as Partial<DeviceTokenRowStatsOptions>;
  const onDevice = out === 'device';
  const view = viewTensor(logprobs, 'logprobs', [2, 3], tokenShapes, engine.device, 'tokenRowStats');
  const { own, signatures, signal, offsets } = options;
  if (typeof view.data !== 'number' && !engine.device?.takesHostTensors && !onDevice) {
    const labels = {
      own: copiedIntegers(own, 'options.own'),
      signatures: signatures === undefined ? undefined : copiedIntegers(signatures, 'options.signatures'),
    };
    const host: Tensor = { data: view.data, dtype: view.dtype, shape: view.shape, strides: view.strides };
    const given = { offsets, signal, onProgress: options.onProgress };
    const summed = (await sumTokens(engine, host, lengths, given)) as TokenSums;
    const rest = { ...labels, lengths: summed.lengths, topK, signal };
    const stats = (await scoreStats(engine, summed.sums, rest)) as RowStats;
    return { ...summed, stats };
  }
  const tokens = tokenArguments(view, lengths, offsets);
  const ownColumns = integerArray(own, 'options.own');
  const columnSignatures = optionalIntegers(signatures, 'options.signatures');
  const start = (settle: Settle, held: HeldBuffers): number =>
    engine.native.tokenRowStats(settle, ...tokens(held), ownColumns, columnSignatures, topK, true, onDevice);
  if (onDevice) return engine.gpu('tokenRowStats').keep<DeviceTokenRowStats>('tokenRowStats', options, start);
  return engine.jobs.run<NativeResults['tokenRowStats'], TokenRowStats>(
    'tokenRowStats',
    options,
    start,
    ({ stats, sums, lengths: rowLengths, firstInvalid }) => {
      noteEngineMemory(stats.matchedSeq);
      noteEngineMemory(rowLengths);
      const shape = [stats.rows, stats.columns];
      const host: HostTensor = { data: sums as Float64Array, dtype: 'float64', shape };
      return { stats, sums: host, lengths: rowLengths, firstInvalid };
    },
  );
}
