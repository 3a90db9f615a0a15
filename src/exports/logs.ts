/**
 * `collapsar/logs`: step files one by one, what trainers log themselves, logs that grow, and results kept in a
 * directory.
 * @module collapsar/logs
 */
export { analysisStream } from '../analysis/analysis-stream.js';
export { textStepOf } from '../analysis/measuring/rollout-measurement.js';
export { type AnalysisSettings, ResultDirectory } from '../analysis/results/result-directory.js';
export type { Journal, JournalOptions } from '../analysis/store/journal.js';
export { type WatchOptions, watch } from '../analysis/watching/watch.js';
export type { Rollout } from '../logs/rollouts/columns.js';
export { type ReadRolloutsOptions, readRollouts } from '../logs/rollouts/read-rollouts.js';
export type { RolloutStep } from '../logs/rollouts/rollout.js';
export type { ReadStepOptions } from '../logs/steps/read-step-options.js';
export {
  type FindStepsOptions,
  type FoundSteps,
  findSteps,
  type ListedStep,
  type ListStepsOptions,
  listSteps,
  type StepLocation,
} from '../logs/steps/read-steps.js';
export { readStepFile, readStepHeader, type StepHeader } from '../logs/steps/step-file.js';
