// Input of one step's measurement: monitor/finish-step.ts makes it from a trainer's scores and outcomes,
// analysis/measuring/measure-step-data.ts from a step file, analysis/measuring/rollout-measurement.ts from a log.
import type { Integers } from '../engine/tensor/tensor.js';
import type { RewardValues } from '../filter/input/filter-input.js';
import type { CheckedScores } from '../metrics/metric-arguments.js';
import type { ScorePlan } from '../metrics/sampled/plan.js';
import type { SamplerOptions } from '../metrics/sampling/samplers.js';
import type { ReasoningSwaps } from '../verdicts/evidence/step-evidence.js';
import type { MeasuredTexts } from './measured-texts.js';
import type { BucketGradients } from './outcomes/gradient-decomposition.js';
import type { GroupName, GroupNames } from './prompts/prompt-measurement.js';

/** R rows, P prompts. Everything but the step's number and its prompts may be missing. */
export interface StepInput {
  readonly step: number;
  readonly scores?: ScoredRows | undefined;
  readonly texts?: MeasuredTexts | undefined;
  /** Undefined if nothing tells which rows are of one prompt, or if only figures of scores are wanted. */
  readonly rows?: StepRows | undefined;
  readonly prompts?: StepPrompts | undefined;
  /** What the maker has to say of the step. */
  readonly notes?: readonly string[] | undefined;
}

/** Cross-scores as sums over tokens [R, P]. */
export interface ScoredRows {
  readonly scores: CheckedScores;
  /** One set of metrics each; none: of all rows. */
  readonly samplers: readonly SamplerOptions[];
  /** Which pairs were scored, where not all were. */
  readonly plan?: ScorePlan | undefined;
}

/** Who the step's prompts are. */
export interface StepPrompts {
  /** [P] of the columns of the scores; of a log its groups. */
  readonly ids: ArrayLike<GroupName>;
  /** What a log calls its groups, by their numbers in `StepRows.groups`. */
  readonly names?: GroupNames | undefined;
  /** What a group is called that text figures name. */
  readonly nameOf: (group: string) => string;
}

/** One value a row, [R]; what is missing is not known. */
export interface StepRows {
  readonly groups: Integers;
  readonly episodes?: Integers | undefined;
  /** Only with `episodes`. */
  readonly turns?: Integers | undefined;
  readonly rewards?: RewardValues | undefined;
  /** Outcomes that rewards were shaped from. */
  readonly outcomes?: Float64Array | Float32Array | undefined;
  /** 1 if the row was right: what verdicts ask before `outcomes`. */
  readonly correct?: Uint8Array | undefined;
  readonly actions?: Integers | undefined;
  /** Reasoning tokens. */
  readonly lengths?: ArrayLike<number | bigint> | undefined;
  readonly valid?: Uint8Array | undefined;
  readonly entropies?: Float64Array | undefined;
  readonly responseLengths?: Float64Array | undefined;
  /** Sums over tokens of log p(z | x without state or image). */
  readonly ablated?: ArrayLike<number> | undefined;
  readonly reasoningSwaps?: ReasoningSwaps | undefined;
  /** Of a validation, by task. */
  readonly success?: Readonly<Record<string, number>> | undefined;
  readonly gradientNorms?: BucketGradients | undefined;
  /** Figures of the step to be held against success. */
  readonly figures?: Readonly<Record<string, number>> | undefined;
}
