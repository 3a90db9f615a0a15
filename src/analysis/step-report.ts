// What the analysis of one step file gives: the metrics of every sample, the filter's and the judge's view of the step,
// and the same as one record for machines.
import type { StepMetrics } from '../metrics/step-metrics.js';
import { type MeasuredPhrase, TEXT_PREFIX, type TextMetrics } from '../metrics/text-metrics.js';
import type { StepExcerpts } from '../monitor/prompts/excerpts.js';
import type { PromptMatrix, PromptReport } from '../monitor/prompts/prompt-findings.js';
import type { Judgement, RunSummary, Verdict } from '../verdicts/index.js';
import type { FilterView } from './measuring/beside-metrics.js';
import type { MetricChoice } from './measuring/metric-choice.js';

/** One JSON object a step. Numbers that are NaN or infinite become null when it is written as JSON. */
export interface StepRecord {
  readonly file: string;
  readonly step: number;
  readonly run: string;
  /** Logged key -> why this metric cannot be given; left out where nothing is missing. `strict` only. */
  readonly absent?: Readonly<Record<string, string>>;
  /** What to know before trusting the figures; left out where there is nothing. `strict` only. */
  readonly notes?: readonly string[];
  /**
   * Where the step stands against the run's start; `name` is null where the evidence does not suffice. `strict` only.
   */
  readonly regime?: RegimeRecord;
  /** Every verdict that holds at this step, the gravest first; left out where none does. `strict` only. */
  readonly verdicts?: readonly Verdict[];
  /**
   * Which groups the filter would keep (strict dialect, top_p 0.9 of reward variance), in files with rewards. `strict`
   * only.
   */
  readonly filter?: FilterRecord;
  /** Phrases that most prompts share, the one that most hold first; in steps with texts that have any. */
  readonly template?: readonly TemplateRecord[];
  readonly [metric: string]: RecordValue | undefined;
}

/** The template that texts share, in a step’s record. */
export type TemplateRecord = Omit<MeasuredPhrase, 'ids'>;

/** The regime that a run is in, in a step’s record. */
export interface RegimeRecord {
  readonly name: string | null;
  readonly since: number;
  readonly sentence: string;
  /** I(X;Z), nats a response, and H(Z|X) with what they are compared with; left out where there is nothing yet. */
  readonly mi?: Compared;
  readonly entropy?: Compared;
}

/** A figure and the run's own start, both among as many prompts. */
export interface Compared {
  readonly value: number;
  readonly start: number;
}

/** What the filter made of a step, in its record. */
export interface FilterRecord {
  /** Group ids; those that no number holds exactly as text. */
  readonly kept: readonly (number | string)[];
  /** How many groups were dropped, by reason. */
  readonly dropped: Readonly<Record<string, number>>;
  readonly warnings?: readonly string[];
}

/** A value of a step’s record: what JSON can hold. */
export type RecordValue =
  | number
  | string
  | null
  | readonly string[]
  | Readonly<Record<string, string>>
  | RegimeRecord
  | readonly Verdict[]
  | FilterRecord
  | readonly TemplateRecord[];

/** What was found out about one step. */
export interface StepFindings {
  /** One a sample label: first turns only, or first turns, trajectories and turns. None without cross-scores. */
  readonly metrics: readonly StepMetrics[];
  /** What the texts say, in steps with rollouts (docs/text-figures.md). */
  readonly texts?: TextMetrics;
  /** Some of its rollouts, cut to what one reads: in steps with texts (`strict`, unless `perPrompt` was false). */
  readonly excerpts?: StepExcerpts;
  /** Regime and verdicts (`strict`; docs/verdicts.md); missing where the step came twice or out of order. */
  readonly judgement?: Judgement;
  /** What the filter would keep, in files with rewards (`strict`). */
  readonly filter?: FilterView;
  /** One entry a prompt (`strict`, unless `perPrompt` was false). */
  readonly prompts?: readonly PromptReport[];
  /** Each prompt's rows under every prompt (as `prompts`); missing where there are no figures, or too many prompts. */
  readonly matrix?: PromptMatrix;
  /** Why verdicts or filter are missing. */
  readonly notes?: readonly string[];
}

/** One analysed step: metrics, regime, verdicts and what the filter would keep. */
export interface StepReport extends StepFindings {
  /** Path of the file, as found. */
  readonly file: string;
  readonly step: number;
  readonly run: string;
  /** Absolute path of the directory whose files are this run. */
  readonly directory: string;
  /** Size of the file. */
  readonly bytes: number;
  /**
   * Verdicts of the whole run and correlations with success; call it after the run's last report. There where
   * `judgement` is.
   */
  readonly summary?: () => RunSummary;
  /** file, step, run, and the chosen metrics under their logged keys. */
  readonly record: StepRecord;
}

export function stepRecord(
  step: { readonly file: string; readonly step: number; readonly run: string },
  { metrics, texts, judgement, filter, notes: remarks }: StepFindings,
  choice: MetricChoice,
): StepRecord {
  const record: Record<string, RecordValue> = { file: step.file, step: step.step, run: step.run };
  const absent: Record<string, string> = {};
  const notes = new Set<string>(remarks);
  for (const { profile, label, logged, absent: reasons, notes: caveats } of metrics) {
    addChosen(record, logged, choice);
    // Under `ragen` a record is what the reference logs and nothing else.
    if (profile === 'ragen') continue;
    for (const [key, reason] of Object.entries(reasons)) {
      if (choice.has(`${label}/${key}`)) absent[`${label}/${key}`] = reason;
    }
    for (const caveat of caveats) notes.add(metrics.length > 1 ? `${label}: ${caveat}` : caveat);
  }
  if (texts !== undefined) {
    addChosen(record, texts.logged, choice);
    for (const [key, reason] of Object.entries(texts.absent)) {
      if (choice.has(TEXT_PREFIX + key)) absent[TEXT_PREFIX + key] = reason;
    }
    for (const caveat of texts.notes) notes.add(caveat);
  }
  if (filter !== undefined) addChosen(record, filter.metrics, choice);
  if (judgement !== undefined) {
    const { regime, verdicts } = judgement;
    if (choice.has('regime')) record.regime = regimeRecord(regime);
    if (choice.has('verdicts') && verdicts.length > 0) record.verdicts = verdicts;
  }
  if (filter !== undefined && choice.has('filter')) record.filter = filterRecord(filter);
  if (texts !== undefined && texts.phrases.length > 0 && choice.has('template')) {
    record.template = texts.phrases.map(({ ids, ...phrase }) => phrase);
  }
  if (Object.keys(absent).length > 0) record.absent = absent;
  if (notes.size > 0) record.notes = [...notes];
  return record as StepRecord;
}

function regimeRecord({ regime, since, sentence, mi, entropy }: Judgement['regime']): RegimeRecord {
  const compared = { name: regime, since, sentence };
  // Until there is a state the start is not known, or nothing to compare with.
  if (regime === null || mi === null || entropy === null) return compared;
  return {
    ...compared,
    mi: { value: mi.value, start: mi.start },
    entropy: { value: entropy.value, start: entropy.start },
  };
}

function addChosen(
  record: Record<string, RecordValue>,
  figures: Readonly<Record<string, number>>,
  choice: MetricChoice,
): void {
  for (const key of Object.keys(figures)) {
    if (choice.has(key)) record[key] = finiteOrNull(figures[key] as number);
  }
}

function finiteOrNull(figure: number): number | null {
  return Number.isFinite(figure) ? figure : null;
}

/** Names in the record beside those of metrics. */
export const RECORD_PARTS = ['regime', 'verdicts', 'filter', 'template'] as const;

/** Ids beyond 2^53 as text: readers of JSON would round them. */
function filterRecord({ kept, dropped, warnings }: FilterView): FilterRecord {
  const reasons: Record<string, number> = {};
  for (const { reason } of dropped) reasons[reason] = (reasons[reason] ?? 0) + 1;
  const named = kept.map((id) => (typeof id === 'bigint' ? String(id) : id));
  return { kept: named, dropped: reasons, ...(warnings.length > 0 ? { warnings } : {}) };
}
