// engine.sumTokens: options, checks, native call, result.

import type { OperationOptions } from '../../checks/operation-options.js';
import { is, OPERATION, type OptionTable } from '../../checks/options.js';
import type { DeviceMemory } from '../device/device-memory.js';
import type { EngineCore } from '../engine-core.js';
import { noteEngineMemory } from '../memory.js';
import type { NativeResults } from '../native.js';
import type { DeviceTensor } from '../tensor/device-tensor.js';
import { optionalIntegers } from '../tensor/integers.js';
import type { HostTensor, Integers, Tensor } from '../tensor/tensor.js';
import { tokenArguments, viewDenseFloat64, viewTensor } from '../tensor/tensor-view.js';

/** Options of `engine.sumTokens`. */
export interface SumTokensOptions extends OperationOptions {
  /** Packed scores only: element offset of each row on the token axis. Default: the running sum of `lengths`. */
  offsets?: Integers | undefined;
  /**
   * A dense float64 [rows, columns] tensor to write into instead of a new one (allocate it with `engine.alloc`, or with
   * `engine.allocDevice`: the sums then stay on the GPU). `'device'`: a new DeviceTensor, which is the caller's to
   * dispose.
   */
  out?: Tensor | 'device' | undefined;
  /** Column of `out` (or of the result) that each prompt's sums go to. Default: prompt p to column p. */
  columns?: Integers | undefined;
}

/** Sums of token log-probs, nats, and the first that cannot be a log-prob. */
export interface TokenSums<Sums extends Tensor = HostTensor> {
  /**
   * float64 [rows, columns]: S[r][p], the sum over the valid tokens of row r under prompt p. Is `options.out` if given.
   */
  sums: Sums;
  lengths: BigInt64Array;
  /** The first used log-prob that is NaN or +inf, by (prompt, row, token); null if none. Its sum is NaN or +inf. */
  firstInvalid: { prompt: number; row: number; token: number } | null;
}

const SUM_OPTIONS: OptionTable<SumTokensOptions> = { offsets: is.any, out: is.any, columns: is.any, ...OPERATION };

export const tokenShapes = 'padded [P, R, T] or packed [P, N]';

/** Engine.sumTokens() */
export async function sumTokens(
  engine: EngineCore,
  logprobs: Tensor,
  lengths: Integers,
  options: SumTokensOptions = {},
): Promise<TokenSums<HostTensor | DeviceTensor>> {
  engine.begin('sumTokens', options, SUM_OPTIONS);
  const view = viewTensor(logprobs, 'logprobs', [2, 3], tokenShapes, engine.device, 'sumTokens');
  const columns = optionalIntegers(options.columns, 'options.columns');
  const tokens = tokenArguments(view, lengths, options.offsets);
  const rows = view.shape.length === 2 ? lengths.length : (view.shape[1] as number);
  const { out, signal } = options;
  const shape = [rows, view.shape[0] as number];
  const target =
    out === 'device'
      ? await engine.gpu('sumTokens').alloc('float64', shape, rows * (view.shape[0] as number), { signal })
      : out;
  const outView =
    target === undefined ? undefined : viewDenseFloat64(target, 'options.out', engine.device, 'sumTokens');
  const running = engine.jobs.run<NativeResults['sumTokens'], TokenSums<HostTensor | DeviceTensor>>(
    'sumTokens',
    options,
    (settle, held) =>
      engine.native.sumTokens(
        settle,
        ...tokens(held),
        columns,
        outView?.shape[0] ?? 0,
        outView?.shape[1] ?? 0,
        outView?.data as Float64Array | DeviceMemory | undefined,
      ),
    ({ sums, lengths: rowLengths, firstInvalid }) => {
      noteEngineMemory(rowLengths);
      return {
        sums: (target as HostTensor | undefined) ?? { data: sums as Float64Array, dtype: 'float64', shape },
        lengths: rowLengths,
        firstInvalid,
      };
    },
  );
  if (out === 'device') running.catch(() => (target as DeviceTensor).dispose());
  return running;
}
