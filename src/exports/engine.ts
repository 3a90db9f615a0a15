/**
 * `collapsar/engine`: tensors on a GPU, sums over tokens that come in blocks, and the options and results of each
 * operation of an `Engine`, which `openEngine` of `collapsar` opens.
 * @module collapsar/engine
 */
export type { DeviceImport } from '../engine/device/device-import.js';
export type { GatherOptions } from '../engine/operations/gather-scores.js';
export type { PairInference, PairInferenceOptions, SampledPairs } from '../engine/operations/infer-pairs.js';
export type { InferenceOptions, StepInference } from '../engine/operations/infer-step.js';
export type { DeviceLogitStats, LogitStats } from '../engine/operations/logit-fields.js';
export type { LogitStatsOptions } from '../engine/operations/logit-stats.js';
export type { PromptMatrices, PromptMatricesOptions } from '../engine/operations/prompt-matrices.js';
export type { DeviceRowStats, RowLabels, RowStats } from '../engine/operations/row-stats.js';
export type { ScoreStatsOptions } from '../engine/operations/score-stats.js';
export type { StepMoments } from '../engine/operations/step-moments.js';
export type { FileScores, SumFileTokensOptions } from '../engine/operations/sum-file-tokens.js';
export type { SumTokensOptions, TokenSums } from '../engine/operations/sum-tokens.js';
export type { TextFigures, TextFiguresOptions } from '../engine/operations/texts/text-figures.js';
export type { Text, TextRows } from '../engine/operations/texts/text-rows.js';
export type {
  DeviceTokenRowStats,
  TokenRowStats,
  TokenRowStatsOptions,
} from '../engine/operations/token-row-stats.js';
export { DeviceTensor } from '../engine/tensor/device-tensor.js';
export type { IndexRange, SumsBlock, TokenBlock, TokenBox } from '../engine/tokens/token-block.js';
export { type BlockSession, TokenSumsSink, type TokenSumsSinkOptions } from '../engine/tokens/token-sums-sink.js';
