// The room's public face.
export type { Information } from './action-information.js';
export type { ActionOscillation } from './action-oscillation.js';
export type { Correlation, CorrelationPair } from './correlation.js';
export type { Grounding } from './grounding.js';
export { Judge, type JudgeJson } from './judge.js';
export type { JudgeOptions } from './judge-options.js';
export type { PromptTriage, TriageCause } from './prompt-triage.js';
export type { FigureCorrelation, RunSummary } from './run-summary.js';
export type { Specificity } from './specificity.js';
export type { FilterEvidence, GroupEvidence, ReasoningSwaps, RowEvidence, StepEvidence } from './step-evidence.js';
export { type EngineJudgeOptions, readEvidence, readEvidenceOn, type StepReading } from './step-reading.js';
export type { Judgement, Regime, RegimeReading, Severity, Verdict, VerdictKind } from './verdict.js';
export type { RunVerdict } from './verdict-log.js';
