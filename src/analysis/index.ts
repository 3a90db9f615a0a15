// The room's public face.
export { type AnalysisProgress, type AnalyzeOptions, analyze } from './analyze.js';
export type { FilterRecord, RecordValue, RegimeRecord, StepFindings, StepRecord, StepReport } from './step-report.js';
