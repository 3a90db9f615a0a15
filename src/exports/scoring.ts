/**
 * `collapsar/scoring`: cross-scores from an inference engine: vLLM, SGLang or TRL's server.
 * @module collapsar/scoring
 */
export * from '../scoring/index.js';
