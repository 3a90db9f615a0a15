// Options of a judge.
import { checkOptions, is, type OptionTable } from '../checks/options.js';

/** Options of a `Judge`. */
export interface JudgeOptions {
  /**
   * Label permutations behind the p-values of I(X;A), I(Z;A|X) and oscillation. Default 99; 0 switches these verdicts
   * off.
   */
  readonly permutations?: number | undefined;
  /** Seed of the permutations. Default 0. */
  readonly seed?: number | undefined;
}

/** Label permutations behind the p-values of I(X;A), I(Z;A|X) and oscillation. */
const PERMUTATIONS = 99;
const OPTIONS: OptionTable<JudgeOptions> = { permutations: is.integer(0), seed: is.integer(0) };

/** JudgeOptions with every default in place. */
export type JudgeSettings = { readonly [Name in keyof JudgeOptions]-?: NonNullable<JudgeOptions[Name]> };

/** @throws {ArgumentError} naming the option that is unknown or out of range */
export function resolveJudgeOptions(options: JudgeOptions, argument = 'options'): JudgeSettings {
  checkOptions(options, OPTIONS, argument);
  const { permutations = PERMUTATIONS, seed = 0 } = options;
  return { permutations, seed };
}
