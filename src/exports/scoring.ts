/**
 * `collapsar/scoring`: cross-scores from an inference engine: vLLM, SGLang or TRL's server.
 * @module collapsar/scoring
 */
export { openScoringEngine, type ScoringEngineName } from '../scoring/open-scoring-engine.js';
export { type ScorePairsOptions, scorePairs } from '../scoring/score-pairs.js';
export { type ScoredRollouts, type ScoreRolloutsOptions, scoreRollouts } from '../scoring/score-rollouts.js';
export { type ScoringEngine, ScoringError, type TokenPair } from '../scoring/scoring-engine.js';
export { openTokenizer, type TextTokenizer } from '../scoring/text-tokenizer.js';
