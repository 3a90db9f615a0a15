import type { CrossScores, TextStep } from '../src/index.js';

/** Prompts of each environment. */
type Counts = Readonly<Record<string, number>>;
/** Of a row each. */
interface Named {
  readonly environments: readonly string[];
}
/** How much an environment's responses tell of their prompts: of scores logits, of texts a share of the words. */
type Own = (environment: string) => number;

export function mixedScores(counts: Counts, rows: number, own: Own, uniform: () => number): CrossScores & Named;
export function mixedTexts(counts: Counts, rows: number, own: Own, uniform: () => number): TextStep & Named;
export function namesOf(environments: number): string[];
export function even(names: readonly string[], prompts: number): Counts;
export function byChance(names: readonly string[], prompts: number, uniform: () => number): Counts;
