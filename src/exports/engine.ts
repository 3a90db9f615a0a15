/**
 * `collapsar/engine`: tensors on a GPU, sums over tokens that come in blocks, and the options and results of each
 * operation of an `Engine`, which `openEngine` of `collapsar` opens.
 * @module collapsar/engine
 */
export type { CudaDevice } from '../engine/device/cuda-device.js';
export type { DeviceImport } from '../engine/device/device-import.js';
export type { HeldTokens, MissingTokens } from '../engine/native.js';
export type { GatherOptions } from '../engine/operations/gather-scores.js';
export type {
  NumericInterval,
  PairInference,
  PairInferenceOptions,
  SampledFigure,
  SampledFigureName,
  SampledPairs,
} from '../engine/operations/infer-pairs.js';
export type {
  AmongInference,
  Figure,
  FigureInference,
  InferenceOptions,
  OverPrompts,
  StepInference,
  SubsetInference,
} from '../engine/operations/infer-step.js';
export type { DeviceLogitStats, LogitField, LogitStats } from '../engine/operations/logit-fields.js';
export type { DeviceLogitStatsOptions, LogitStatsOptions } from '../engine/operations/logit-stats.js';
export type { PromptMatrices, PromptMatricesOptions } from '../engine/operations/prompt-matrices.js';
export type { OnDevice, ResultOnDevice } from '../engine/operations/result-on-device.js';
export type { DeviceRowStats, RowLabels, RowStats } from '../engine/operations/row-stats.js';
export type { DeviceScoreStatsOptions, ScoreStatsOptions } from '../engine/operations/score-stats.js';
export type { Moments, StepMoments } from '../engine/operations/step-moments.js';
export type { FileScores, SumFileTokensOptions } from '../engine/operations/sum-file-tokens.js';
export type { SumTokensOptions, TokenSums } from '../engine/operations/sum-tokens.js';
export type { RowReading } from '../engine/operations/texts/row-readings.js';
export type {
  ReadingOptions,
  TemplatePhrase,
  TextFigures,
  TextFiguresOptions,
  TextProblem,
} from '../engine/operations/texts/text-figures.js';
export type { TextPrompts } from '../engine/operations/texts/text-prompts.js';
export type { Text, TextRows } from '../engine/operations/texts/text-rows.js';
export type {
  DeviceTokenRowStats,
  DeviceTokenRowStatsOptions,
  TokenRowStats,
  TokenRowStatsOptions,
} from '../engine/operations/token-row-stats.js';
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
