// Readers and writers of log formats: what the package exports of them.

export type { ColumnNames, OwnColumn } from './rollouts/formats/own.js';
export { type ReadRolloutsOptions, readRollouts } from './rollouts/read-rollouts.js';
export type { ReasoningTags } from './rollouts/reasoning.js';
export type { GroupSource, RolloutColumn, RolloutStep, Texts, TokenLists } from './rollouts/rollout.js';
export { type FindStepsOptions, type FoundSteps, findSteps, type StepLocation } from './steps/find-steps.js';
export type { ReadStepOptions } from './steps/read-step-options.js';
export {
  type ListedStep,
  type ListingProgress,
  type ListStepsOptions,
  listSteps,
  type ReadStepsOptions,
  readSteps,
} from './steps/read-steps.js';
export type { IntegerArray, LogprobBlock, StepData, StepScores } from './steps/step-data.js';
export { readStepFile, readStepHeader, type StepHeader } from './steps/step-file.js';
export type { StepLayout } from './steps/step-layout.js';
export {
  type RewardArray,
  type StepToWrite,
  type WriteStepOptions,
  type WrittenTensor,
  writeStep,
} from './steps/write-step.js';
export type { FileChoiceOptions } from './stores/file-choice.js';
