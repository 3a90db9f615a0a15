/**
 * `collapsar/sampling`: figures from fewer scores (which pairs to score, estimates from them, rounds until they
 * are certain enough) and the samplers of multi-turn runs.
 * @module collapsar/sampling
 */
export { type EstimateOptions, estimateFromPairs, type PairEstimates } from '../metrics/sampled/estimates.js';
export { type PairScores, sumPairTokens } from '../metrics/sampled/pair-scores.js';
export { planScores, type ScorePlan, type ScorePlanInput, type ScorePlanOptions } from '../metrics/sampled/plan.js';
export { ScoreRounds, type ScoreRoundsOptions } from '../metrics/sampled/rounds.js';
export { effectiveSize, firstTurnRows, sampleRows } from '../metrics/sampling/samplers.js';
