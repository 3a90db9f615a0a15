// The engine's part of the package's exports.
export type { OperationOptions } from '../checks/operation-options.js';
export type { CudaDevice } from './device/cuda-device.js';
export type { DeviceImport } from './device/device-import.js';
export { Engine } from './engine.js';
export type { EngineInfo } from './engine-info.js';
export type { HeldTokens, MissingTokens } from './native.js';
export { type EngineOptions, openEngine } from './open-engine.js';
export type * from './operations/gather-scores.js';
export type * from './operations/infer-pairs.js';
export type * from './operations/infer-step.js';
export type * from './operations/logit-fields.js';
export type * from './operations/logit-stats.js';
export type * from './operations/prompt-matrices.js';
export type { ResultOnDevice } from './operations/result-on-device.js';
export type * from './operations/row-stats.js';
export type * from './operations/score-stats.js';
export type * from './operations/step-moments.js';
export type * from './operations/sum-file-tokens.js';
export type * from './operations/sum-tokens.js';
export type * from './operations/texts/text-figures.js';
export type { Text, TextRows } from './operations/texts/text-rows.js';
export type * from './operations/token-row-stats.js';
export { DeviceTensor } from './tensor/device-tensor.js';
export type { Float16ArrayLike } from './tensor/float16-array.js';
export type * from './tensor/tensor.js';
export type { IndexRange, SumsBlock, TokenBlock, TokenBox } from './tokens/token-block.js';
export {
  type BlockOptions,
  type BlockSession,
  TokenSumsSink,
  type TokenSumsSinkOptions,
} from './tokens/token-sums-sink.js';
