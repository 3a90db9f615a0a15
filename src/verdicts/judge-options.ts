// What a judge can be told beside the steps.
import { checkKnown, optionNames } from '../checks/argument-checks.js';
import { checkInteger, optionsObject } from '../checks/option-checks.js';

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
const NAMES = optionNames<JudgeOptions>({ permutations: true, seed: true });

/** With every default filled in. @throws {ArgumentError} naming the option that is unknown or out of range */
export function resolveJudgeOptions(options: JudgeOptions): { permutations: number; seed: number } {
  checkKnown(optionsObject(options, 'options'), 'options', NAMES);
  const { permutations = PERMUTATIONS, seed = 0 } = options;
  checkInteger(permutations, 'options.permutations', 0);
  checkInteger(seed, 'options.seed', 0);
  return { permutations, seed };
}
