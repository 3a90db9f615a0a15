// Resolves names and globs as a user types them to logged keys.

import { ArgumentError } from '../../checks/errors.js';
import type { Kind } from '../../checks/options.js';
import { shown } from '../../checks/words.js';

/** The key without its sample label: `mi_estimate` for `collapse_first_turn_sample/mi_estimate`. */
function unprefixed(key: string): string {
  return key.slice(key.indexOf('/') + 1);
}

/**
 * `*` for any characters, `?` for one. Not by an expression of `.*`: a manifest that someone made has what globs, and a
 * state what names it likes, and such an expression takes time by the power of its stars.
 */
function matches(glob: string, name: string): boolean {
  let at = 0;
  // The last star, and where what follows it is tried: what precedes it has matched.
  let star = -1;
  let tried = 0;
  for (let next = 0; next < name.length; ) {
    const wanted = glob[at];
    if (wanted === '*') {
      star = at++;
      tried = next;
    } else if (wanted === '?' || wanted === name[next]) {
      at++;
      next++;
    } else if (star >= 0) {
      at = star + 1;
      next = ++tried;
    } else return false;
  }
  while (glob[at] === '*') at++;
  return at === glob.length;
}

/** Names or globs. */
export const METRICS: Kind = (metrics, argument) => {
  if (Array.isArray(metrics) && metrics.every((name) => typeof name === 'string')) return;
  throw new ArgumentError(argument, `got ${shown(metrics)}, expected an array of names or globs`);
};

/** A choice of metrics. Each pattern is a logged key, the same without its prefix, or a glob (`*`, `?`) over either. */
export class MetricChoice {
  readonly #patterns: readonly string[] | undefined;
  readonly #known = new Map<string, boolean>();
  readonly #unmatched: Set<string>;

  /** @param patterns what to choose; undefined chooses everything */
  constructor(patterns: readonly string[] | undefined) {
    this.#patterns = patterns?.slice();
    this.#unmatched = new Set(patterns);
  }

  /** Whether the metric logged under `key` is chosen. */
  has(key: string): boolean {
    if (this.#patterns === undefined) return true;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    let chosen = false;
    for (const pattern of this.#patterns) {
      if (!matches(pattern, key) && !matches(pattern, unprefixed(key))) continue;
      chosen = true;
      this.#unmatched.delete(pattern);
    }
    this.#known.set(key, chosen);
    return chosen;
  }

  /** Patterns that chose none of the keys asked about so far. */
  get unmatched(): readonly string[] {
    return [...this.#unmatched];
  }

  /** Unprefixed names among the keys asked about so far, sorted. */
  get namesSeen(): readonly string[] {
    return [...new Set([...this.#known.keys()].map(unprefixed))].sort();
  }
}
