// A report as one record for machines: what `analyze --jsonl` prints of a step.
import type { MeasuredPhrase, TextMetrics } from '../metrics/text-metrics.js';
import type { Judgement, Verdict } from '../verdicts/index.js';
import type { FilterView } from './step-measurement.js';

/** One JSON object a step. Numbers that are NaN or infinite become null when it is written as JSON. */
export interface StepRecord {
  readonly file: string;
  readonly step: number;
  readonly run: string;
  /**
   * Ends of intervals, p-values and standard errors by logged key (StepReport.certainty); left out if there are none.
   * `strict` only.
   */
  readonly certainty?: Readonly<Record<string, number | null>>;
  /** Reasons by logged key of metrics that cannot be given; left out if nothing is missing. `strict` only. */
  readonly absent?: Readonly<Record<string, string>>;
  /** What to know before trusting the figures; left out if there is nothing. `strict` only. */
  readonly notes?: readonly string[];
  /**
   * Comparison of the step with the run's start; `name` is null if the evidence does not suffice. `strict` only.
   */
  readonly regime?: RegimeRecord;
  /** Every verdict that holds at this step, the most severe first; left out if none does. `strict` only. */
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
  /** I(X;Z), nats a response, and H(Z|X) with what they are compared with; left out if there is nothing yet. */
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
  | Readonly<Record<string, number | null>>
  | RegimeRecord
  | readonly Verdict[]
  | FilterRecord
  | readonly TemplateRecord[];

/** Which logged keys and parts are wanted. */
export interface KeyChoice {
  has(key: string): boolean;
}

/** What of a report its record says. */
interface RecordedParts {
  readonly file: string;
  readonly step: number;
  readonly run: string;
  readonly metrics: Readonly<Record<string, number>>;
  readonly certainty: Readonly<Record<string, number>>;
  readonly absent?: Readonly<Record<string, string>>;
  readonly notes?: readonly string[];
  readonly judgement?: Judgement;
  readonly filter?: FilterView;
  readonly texts?: TextMetrics;
}

/** The figures of a record and what says how sure they are, under their logged keys. */
export function allFigures(record: StepRecord): Omit<StepRecord, 'file' | 'step' | 'run'> {
  return record.certainty === undefined ? record : { ...record, ...record.certainty };
}

/** A report as one flat object for machines. */
export function stepRecord(report: RecordedParts, choice: KeyChoice = EVERYTHING): StepRecord {
  const { file, step, run, metrics, certainty, absent = {}, notes = [], judgement, filter, texts } = report;
  const record: Record<string, RecordValue> = { file, step, run };
  const finite = (figure: number): number | null => (Number.isFinite(figure) ? figure : null);
  for (const [key, figure] of Object.entries(metrics)) if (choice.has(key)) record[key] = finite(figure);
  const all = choice.has('certainty');
  const sure = Object.entries(certainty).filter(([key]) => all || choice.has(key));
  if (sure.length > 0) record.certainty = Object.fromEntries(sure.map(([key, figure]) => [key, finite(figure)]));
  if (judgement !== undefined) {
    const { regime, verdicts } = judgement;
    if (choice.has('regime')) record.regime = regimeRecord(regime);
    if (choice.has('verdicts') && verdicts.length > 0) record.verdicts = verdicts;
  }
  if (filter !== undefined && choice.has('filter')) record.filter = filterRecord(filter);
  if (texts !== undefined && texts.phrases.length > 0 && choice.has('template')) {
    record.template = texts.phrases.map(({ ids, ...phrase }) => phrase);
  }
  const reasons = Object.entries(absent).filter(([key]) => choice.has(key));
  if (reasons.length > 0) record.absent = Object.fromEntries(reasons);
  if (notes.length > 0) record.notes = notes;
  return record as StepRecord;
}

const EVERYTHING: KeyChoice = { has: () => true };

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

type RecordPart = 'certainty' | 'regime' | 'verdicts' | 'filter' | 'template';

/** Parts of a record beside the metrics, in words. */
export const PART_WORDS: Readonly<Record<RecordPart, string>> = {
  certainty:
    'logged key with an ending → number: ends of the 95% intervals (`_batch_low`, `_batch_high`, `_population_low`, ' +
    '`_population_high`; of texts `mi_bound_low`, `mi_bound_high`), `_p_value` and `_standard_error`. Absent when there are none',
  regime:
    "`{ name, since, sentence, mi, entropy }`: where the step stands against the run's start; `name` is null where the " +
    'evidence does not suffice; `mi` and `entropy` are `{ value, start }` and left out then',
  verdicts:
    'every verdict (docs/reference/verdicts.md) that holds at this step, the gravest first: `kind`, `severity`, `since`, ' +
    '`raised`, `step`, `evidence`, `advice`, `sentence`. Absent when none holds',
  filter:
    'for files with rewards: `{ kept, dropped }`, the ids of the groups that the filter (docs/reference/filter.md) would keep ' +
    '(strict dialect, `top_p` 0.9 of reward variance) and how many it would drop for which reason; with `warnings` where ' +
    'there are any',
  template:
    'in steps with texts: phrases that most prompts share, the one that most hold first: `{ text, tokens, prompts, share, ' +
    'shareAtFirstStep }`. Absent when there are none',
};

export const RECORD_PARTS = Object.keys(PART_WORDS) as readonly RecordPart[];

/** Ids beyond 2^53 as text: readers of JSON would round them. */
function filterRecord({ kept, dropped, warnings }: FilterView): FilterRecord {
  const reasons: Record<string, number> = {};
  for (const { reason } of dropped) reasons[reason] = (reasons[reason] ?? 0) + 1;
  const named = kept.map((id) => (typeof id === 'bigint' ? String(id) : id));
  return { kept: named, dropped: reasons, ...(warnings.length > 0 ? { warnings } : {}) };
}
