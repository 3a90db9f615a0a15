/**
 * `collapsar/engine`: tensors on a GPU, sums over tokens that come in blocks, and the options and results of each
 * operation of an `Engine`, which `openEngine` of `collapsar` opens.
 * @module
 */
export type { CudaDevice } from '../engine/device/cuda-device.js';
export type { DeviceImport } from '../engine/device/device-import.js';
export type { HeldTokens, MissingTokens } from '../engine/native.js';
export type * from '../engine/operations/gather-scores.js';
export type * from '../engine/operations/infer-pairs.js';
export type * from '../engine/operations/infer-step.js';
export type * from '../engine/operations/logit-fields.js';
export type * from '../engine/operations/logit-stats.js';
export type { ResultOnDevice } from '../engine/operations/result-on-device.js';
export type * from '../engine/operations/row-stats.js';
export type * from '../engine/operations/score-stats.js';
export type * from '../engine/operations/step-moments.js';
export type * from '../engine/operations/sum-file-tokens.js';
export type * from '../engine/operations/sum-tokens.js';
export type * from '../engine/operations/text-figures.js';
export type { Text, TextRows } from '../engine/operations/text-rows.js';
export type * from '../engine/operations/token-row-stats.js';
export { DeviceTensor } from '../engine/tensor/device-tensor.js';
export type { Float16ArrayLike } from '../engine/tensor/float16-array.js';
export { FileReadError } from '../engine/tokens/file-read-error.js';
export type { IndexRange, SumsBlock, TokenBlock, TokenBox } from '../engine/tokens/token-block.js';
export {
  type BlockOptions,
  type BlockSession,
  TokenSumsSink,
  type TokenSumsSinkOptions,
} from '../engine/tokens/token-sums-sink.js';
