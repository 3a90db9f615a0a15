/**
 * `collapsar/filter`: the variance-based filter alone, which loads a tenth of what `collapsar` does and no native code.
 * @module collapsar/filter
 */
export * from '../filter/index.js';
