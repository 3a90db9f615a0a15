// The engine's part of the package's exports.
export type { CudaDevice } from './cuda-probe.js';
export type { DeviceImport } from './device-import.js';
export { DeviceTensor } from './device-tensor.js';
export { Engine } from './engine.js';
export type { Float16ArrayLike } from './float16-array.js';
export type { MissingTokens } from './missing-tokens.js';
export { type EngineOptions, openEngine } from './open-engine.js';
export type * from './operations.js';
export type * from './tensor.js';
export type { TemplatePhrase, Text, TextFigures, TextFiguresOptions, TextProblem, TextRows } from './text-rows.js';
export type { IndexRange, SumsBlock, TokenBlock, TokenBox } from './token-block.js';
export {
  type BlockOptions,
  type BlockSession,
  type HeldTokens,
  TokenSumsSink,
  type TokenSumsSinkOptions,
} from './token-sums-sink.js';
