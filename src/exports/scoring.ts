/**
 * `collapsar/scoring`: cross-scores from an inference engine: vLLM, SGLang or TRL's server.
 * @module
 */
export * from '../scoring/index.js';
