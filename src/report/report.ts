// Data of a report: runs as columns of numbers, and the words about them. The page, the figures and the payload read
// it; it knows neither Node nor a browser.
import type { Severity } from '../verdicts/verdict.js';

export interface Report {
  readonly head: ReportHead;
  readonly runs: readonly RunData[];
}

export interface ReportHead {
  /** Which steps the columns hold: those after this cursor (of a live page), or all: ''. */
  readonly after: string;
  /** What to ask for the steps that come after these. */
  readonly cursor: string;
  readonly provenance: Provenance;
  /** What was left out to keep the file small, in sentences. */
  readonly thinned: readonly string[];
}

/** How the report can be made again. */
export interface Provenance {
  readonly version: string;
  /** What the analysis was asked for, as in summary.json. */
  readonly settings: Readonly<Record<string, string | number | readonly string[]>>;
  readonly command: string;
}

/**
 * Figures of a step by their names on the page: the batch's own 95% interval is `_low` to `_high`, `_p` its p-value.
 * Of steps that are drawn together, each is the mean, the bounds are the outermost, and `_least` and `_most` are there.
 * `measured` is 0 if scores or texts were not requested (a monitor's steps between), and missing if they were asked
 * for at every step. Environments of mixed batches have figures of their own, `environment/<name>/mi` and `…/bound`,
 * with % and / of the name as %25 and %2F.
 */
export const FIGURES = [
  ...['mi', 'mi_low', 'mi_high', 'mi_p', 'mi_population_low', 'mi_population_high', 'mi_within', 'bound'],
  ...['entropy', 'retrieval', 'retrieval_low', 'retrieval_high', 'retrieval_p', 'chance'],
  ...['margin', 'margin_low', 'margin_high', 'reward', 'reward_std', 'kept', 'gate'],
  ...['valid', 'rows', 'rows_used', 'length', 'template', 'repetition', 'measured', 'pairs', 'pairs_saved'],
] as const;
export type FigureName = (typeof FIGURES)[number];

export interface RunData {
  readonly head: RunHead;
  /** Training steps, rising. */
  readonly steps: Float64Array;
  /** By name; each as long as `steps`. NaN: the step has none. */
  readonly figures: Readonly<Record<string, Float32Array>>;
  /** Of each step: place in REGIME_CODES; 0 if undecided. */
  readonly regimes: Uint8Array;
  readonly prompts: PromptTable | undefined;
  readonly matrices: readonly Matrix[];
  /** Steps whose gradients were analysed, rising. */
  readonly gradients: readonly GradientStep[];
  /** Some rollouts of some steps, to be read. */
  readonly texts: readonly StepTexts[];
}

export const REGIME_CODES = ['', 'diverse', 'template_collapse', 'compressed', 'low_entropy_collapse'] as const;

/** The most severe first; of equals the one that has kept the least of its MI. */
export function byGravity({ head: a }: RunData, { head: b }: RunData): number {
  const [first, second] = [a, b].map(({ status }) => GRADES.indexOf(status.grade)) as [number, number];
  return first - second || (a.shares.mi ?? 1) - (b.shares.mi ?? 1);
}

export interface RunHead {
  readonly name: string;
  /** Folder of its files, as they were found. */
  readonly place: string;
  /** Instrument: log-probs of the policy, or only texts (a lower bound). */
  readonly instrument: 'scores' | 'texts';
  /** Whether `entropy` is H(Z|X) in nats a token; else the share of a text that its siblings do not have. */
  readonly hasEntropy: boolean;
  /** How many steps it has, drawn together or not. */
  readonly count: number;
  readonly status: RunStatus;
  /** What later steps are compared with; null while there is none. */
  readonly start: { readonly mi: number; readonly entropy: number } | null;
  /** Of the start, at the last step that has a state. */
  readonly shares: { readonly mi: number | null; readonly entropy: number | null };
  readonly verdicts: readonly Stretch[];
  readonly correlations: Correlations | undefined;
  readonly notes: readonly Remark[];
  /** Reasons of missing figures. */
  readonly absent: readonly Remark[];
  /** Phrases that most prompts share, at the last step with texts. */
  readonly template: readonly Phrase[];
  readonly templateStep: number | null;
}

/** Most severe first. `ended`: an alarm that no longer holds; `unjudged`: a profile without verdicts. */
export const GRADES = ['critical', 'warning', 'ended', 'unknown', 'unjudged', 'fine'] as const;
export type Grade = (typeof GRADES)[number];

/** State of a run at its last step. */
export interface RunStatus {
  readonly grade: Grade;
  /** In few words: `template collapse`. */
  readonly state: string;
  readonly since: number | null;
  readonly said: number | null;
  readonly sentence: string;
  readonly advice: string;
}

/** A verdict from the step at which it begins to the last one at which it holds. */
export interface Stretch {
  readonly kind: string;
  readonly severity: Severity;
  readonly since: number;
  readonly raised: number;
  readonly until: number;
  readonly holds: boolean;
  readonly sentence: string;
  readonly advice: string;
  /** Environments that it names, of a run whose batches mix several; missing in reports of before there were any. */
  readonly environments?: readonly string[];
}

export interface Correlations {
  readonly against: string;
  readonly figures: readonly {
    readonly figure: string;
    readonly estimate: number;
    readonly low: number;
    readonly high: number;
    readonly steps: number;
    readonly effectiveSteps: number;
  }[];
}

/** Something said of steps; of how many, and of which first. */
export interface Remark {
  readonly about: string;
  readonly text: string;
  readonly first: number;
  readonly steps: number;
}

export interface Phrase {
  readonly text: string;
  readonly prompts: number;
  readonly share: number;
  readonly shareAtFirstStep: number | null;
}

/** A row a prompt of a step, by step; all columns are equally long. */
export interface PromptTable {
  /** Distinct ids; `prompt` is a place here. */
  readonly ids: readonly string[];
  /** Distinct reasons of the filter, and causes of low variance; '' for none. */
  readonly reasons: readonly string[];
  readonly causes: readonly string[];
  readonly step: Float64Array;
  readonly prompt: Uint32Array;
  readonly rows: Float32Array;
  readonly mi: Float32Array;
  readonly miLow: Float32Array;
  readonly miHigh: Float32Array;
  readonly rewardMean: Float32Array;
  readonly rewardStd: Float32Array;
  readonly retrieval: Float32Array;
  /** 0 dropped, 1 kept, 2 not known. */
  readonly kept: Uint8Array;
  readonly reason: Uint8Array;
  readonly cause: Uint8Array;
}

/** A step whose gradients were taken apart. */
export interface GradientStep {
  readonly step: number;
  /** By rising spread of reward; `all` first, where it was given. */
  readonly buckets: readonly GradientBucket[];
}

/** Prompts whose rewards spread alike, and the norms of the gradients that their rows give. */
export interface GradientBucket {
  /** `bucket_1`, …, or `all`. */
  readonly name: string;
  /** Standard deviation of the reward within a prompt's rows, over the bucket's prompts. */
  readonly spread: { readonly mean: number; readonly least: number; readonly most: number };
  readonly task: number;
  /** Of KL and entropy together. */
  readonly regularization: number;
}

/** How likely reasoning of one prompt (row) makes it that it was asked another (column): mean over the rows' responses. */
export interface Matrix {
  readonly step: number;
  readonly source: 'scores' | 'texts';
  /** Of the rows and columns, in this order. */
  readonly ids: readonly string[];
  /** How many prompts the step has; more than `ids` where only some are kept. */
  readonly prompts: number;
  /** Row-major; 255 is 1. */
  readonly posterior: Uint8Array;
  /** Row-major, float16: nats by which a response is likelier under the column's prompt than under all. */
  readonly nats: Uint16Array;
}

/** Some rollouts of a step. */
export interface StepTexts {
  readonly step: number;
  /** How many rows they were chosen from. */
  readonly rows: number;
  /** The most generic first. */
  readonly rollouts: readonly ShownText[];
}

/** A rollout, cut to what one reads. Lengths and places are in characters (code points). */
export interface ShownText {
  readonly row: number;
  readonly group: string;
  readonly prompt: string | null;
  /** Of the whole prompt, and of the whole reasoning. */
  readonly promptLength: number;
  readonly reasoning: string;
  readonly length: number;
  readonly reward: number | null;
  /** Nats a feature; null if there are no text figures. */
  readonly specificity: number | null;
  /** Of the whole reasoning. */
  readonly tokens: number;
  /** [2n] where the first n tokens begin and end. */
  readonly places: Uint16Array;
  /** [n] float16: nats by which each token speaks for its own prompt. */
  readonly nats: Uint16Array;
}
