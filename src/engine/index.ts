// The engine's part of the package's exports.
export type { OperationOptions } from '../checks/operation-options.js';
export type { CudaDevice } from './device/cuda-device.js';
export type { DeviceImport } from './device/device-import.js';
export { Engine } from './engine.js';
export type { HeldTokens, MissingTokens } from './native.js';
export { type EngineOptions, openEngine } from './open-engine.js';
export type * from './operations/operations.js';
export type {
  TemplatePhrase,
  Text,
  TextFigures,
  TextFiguresOptions,
  TextProblem,
  TextRows,
} from './operations/text-rows.js';
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
