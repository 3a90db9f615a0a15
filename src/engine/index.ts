// The engine's part of the package's exports.
export { Engine, type EngineOptions, openEngine } from './engine.js';
export type * from './operations.js';
export type * from './tensor.js';
