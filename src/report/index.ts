// Exports the report: what `collapsar report` writes, and what `collapsar serve` shows during a run.
export type { PromptRow } from './collect/prompt-columns.js';
export { ReportCollection } from './collect/report-collection.js';
export { textsOfReport } from './collect/step-texts.js';
export { contentSecurityPolicy, MOST_BYTES, pageHtml, payloadOf } from './page-html.js';
export { cutMatrix } from './payload/thinning.js';
export { hasResults, readResults } from './read-results.js';
export type { Matrix, Provenance, Report } from './report.js';
