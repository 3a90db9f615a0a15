/**
 * `collapsar/sampling`: figures from fewer scores (which pairs to score, estimates from them, rounds until they are
 * certain enough) and the samplers of multi-turn runs.
 * @module collapsar/sampling
 */
export {
  type ErrorParts,
  type EstimateOptions,
  estimateFromPairs,
  type PairEstimates,
} from '../metrics/sampled/estimates.js';
export { completeSums, type PairScores, sumPairTokens } from '../metrics/sampled/pair-scores.js';
export {
  type Pairs,
  type PlanCost,
  type PromptPairs,
  planScores,
  type ScorePlan,
  type ScorePlanInput,
  type ScorePlanOptions,
} from '../metrics/sampled/plan.js';
export { turnsOfPrompts } from '../metrics/sampled/prompt-turns.js';
export {
  type RoundsEnd,
  type RoundsResult,
  type ScoreRound,
  ScoreRounds,
  type ScoreRoundsJson,
  type ScoreRoundsOptions,
} from '../metrics/sampled/rounds.js';
export { effectiveSize, firstTurnRows, sampleRows } from '../metrics/sampling/samplers.js';
