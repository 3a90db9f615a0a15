// Exports for other rooms.

export type {
  FilterEvidence,
  GroupEvidence,
  ReasoningSwaps,
  RowEvidence,
  StepEvidence,
} from './evidence/step-evidence.js';
export { Judge, type JudgeJson } from './judge.js';
export type { JudgeOptions } from './judge-options.js';
export type { Judgement, RegimeReading } from './judgement.js';
export type { PromptRewards, PromptTriage, TriageCause } from './prompt-triage.js';
export type { FigureCorrelation, RunSummary } from './run-summary.js';
export type { Correlation, CorrelationPair } from './statistics/correlation.js';
export { type EngineJudgeOptions, readEvidence, readEvidenceOn, type StepReading } from './step-reading.js';
export type { Regime, Severity, Verdict, VerdictKind } from './verdict.js';
export type { RunVerdict } from './verdict-log.js';
export type { Information } from './warnings/action-information.js';
export type { ActionOscillation } from './warnings/action-oscillation.js';
export type { Grounding } from './warnings/grounding.js';
export type { Specificity } from './warnings/specificity.js';
