// Everything that `import … from 'collapsar'` gives.
export * from './analysis/index.js';
export * from './checks/errors.js';
export * from './engine/index.js';
export { FileReadError } from './engine/tokens/file-read-error.js';
export * from './filter/index.js';
export * from './logs/index.js';
export * from './metrics/index.js';
export * from './monitor/index.js';
export * from './scoring/index.js';
export * from './verdicts/index.js';
