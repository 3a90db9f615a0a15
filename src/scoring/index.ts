// Public exports: cross-scores from an inference engine.
export { openScoringEngine, type ScoringEngineName } from './open-scoring-engine.js';
export type { Retry } from './post-json.js';
export { type ScoredRow, type ScorePairsOptions, scorePairs } from './score-pairs.js';
export { type ScoredRollouts, type ScoreRolloutsOptions, scoreRollouts } from './score-rollouts.js';
export { type ScoringEngine, ScoringError, type TokenPair } from './scoring-engine.js';
export { openTokenizer, type TextTokenizer } from './text-tokenizer.js';
