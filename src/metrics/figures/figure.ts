// Defines a figure: one entry, from which every list of keys, the words of `explain`, the pages and the sinks are read.
import type { PairInference, SampledFigureName } from '../../engine/operations/infer-pairs.js';
import type { Figure } from '../../engine/operations/infer-step.js';
import type { MeasuredStep } from '../measured-step.js';
import type { PlanLayout } from '../sampled/plan.js';
import type { MarginalSpread, Profile, StepSpread } from '../step-metrics.js';

/** What `collapsar explain` says of a figure. Figures with the same object are explained together. */
export interface FigureWords {
  readonly definition: string;
  /** As in the tables of docs/reference/metrics.md. */
  readonly formula: string;
  /** How to read it, and what to do. */
  readonly advice: string;
}

/** Figures beside another one, under its key and an ending. */
export type Companion = 'batch_low' | 'batch_high' | 'population_low' | 'population_high' | 'p_value';

/** A metric of Prometheus, without `collapsar_`; where two figures share one, the first has the help. */
export interface Gauge {
  readonly name: string;
  readonly help?: string;
}

/** A column of the command's table of steps. */
export interface ScreenColumn {
  readonly title: string;
  /** Position of the column: columns are sorted by it. */
  readonly place: number;
  /** Profile whose table has it; default both. */
  readonly profile?: Profile;
  /** As of a table's column. */
  readonly dispensable?: number;
  /** Where its trend is drawn; default: nowhere. */
  readonly scale?: 'positive' | 'share' | 'signed';
  /** Key of a level that the trend is drawn against. */
  readonly chance?: string;
  /** Titles of the columns behind it that say how sure it is, which only `strict` can. */
  readonly interval?: string;
  readonly pValue?: string;
}

/** Where a figure is seen, besides the records. */
export interface Shown {
  /** Its name in the report, after which those of its companions are made. */
  readonly report?: string;
  /** Companions of it in the report and in sinks. */
  readonly companions?: readonly Companion[];
  /** Goes to every sink, also to one that is not asked for all figures. */
  readonly sinks?: true;
  /** Title of a chart in TensorBoard, between its bounds. */
  readonly chart?: string;
  /** Itself in Prometheus, and its companions. */
  readonly gauge?: Gauge;
  readonly gauges?: Readonly<Partial<Record<Companion, Gauge>>>;
  readonly column?: ScreenColumn;
  /** What it is called in tables, for `explain`. */
  readonly called?: readonly string[];
}

/** A figure under its key, without the label of a sample. */
export interface NamedFigure {
  readonly key: string;
  readonly words: FigureWords;
  readonly shown?: Shown;
}

/** A step of which every score is known. */
export interface StepFound {
  readonly profile: Profile;
  /** As a sampler drew it, with a prompt as often as it was drawn. */
  readonly step: MeasuredStep;
  /** The same rows among each prompt once. */
  readonly retrieval: MeasuredStep;
  readonly spread: StepSpread;
  /** The most that MI can be, as mostInformation() gives it. */
  readonly most: number;
}

/** A step of which a plan's pairs are scored. */
export interface PairsFound {
  readonly layout: PlanLayout;
  readonly inference: PairInference;
  /** Rows by how many columns count as their own, as rowsByEquivalents() gives them. */
  readonly alike: Int32Array;
}

/** A value, or the reason why there is none. */
export type ValueOrReason = number | string;

/**
 * What a figure is if only a plan's pairs are scored: one that the engine estimates, with its interval; a value that is
 * exact; whether the own prompt is among the best `k`, which has certain bounds; or nothing, as it takes every pair.
 */
export type OfPairs =
  | { readonly estimate: SampledFigureName }
  | { readonly value: (found: PairsFound) => ValueOrReason; readonly note?: (value: number) => string | undefined }
  | { readonly best: number }
  | 'every pair';

/** Why a plan's pairs show nothing of a figure that takes every row's marginal. */
export const NO_MARGINAL = 'some row has a marginal that is not finite';

/** Interval and p-value of the engine, and between which values the figure lies for certain. */
export interface EngineCertainty {
  readonly figure: Figure;
  readonly within: 'information' | 'bounded information' | 'share';
}

/** A figure that is measured: by itself (`value`), or from the run's moving averages (`averaged`). */
export interface MeasuredFigure extends NamedFigure {
  /** Default: both. */
  readonly profile?: Profile;
  readonly value: (found: StepFound) => ValueOrReason;
  /** Missing of figures without an interval. */
  readonly certainty?: EngineCertainty;
  readonly ofPairs: OfPairs;
  /** What to know before trusting it, of `strict`. */
  readonly note?: (found: StepFound) => string | undefined;
}

/** A figure of the spread of a step and of its run's average; at a run's first step they are one. */
export interface AveragedFigure extends NamedFigure {
  readonly profile: Profile;
  readonly averaged: (step: StepSpread, average: MarginalSpread) => number;
  readonly ofPairs: OfPairs;
}

/** A figure that follows from another one, with its interval, however that one was found. */
export interface DerivedFigure extends NamedFigure {
  readonly profile?: Profile;
  readonly of: string;
  /** `minus`: less the figure of that key. */
  readonly by: 'negative' | 'exp' | { readonly minus: string };
}

/** A figure that the engine gives beside others: several under one entry, or with an interval of its own making. */
export interface SubsetFigure extends NamedFigure {
  readonly profile: 'strict';
  /** Keys of a step with `distinct` different prompts. */
  readonly subset: (distinct: number) => readonly string[];
  /** Whether it has the batch interval, which is then its only one. */
  readonly batchOnly: boolean;
  readonly ofPairs: OfPairs;
}

export type ScoreFigure = MeasuredFigure | AveragedFigure | DerivedFigure | SubsetFigure;
