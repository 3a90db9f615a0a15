// Makes unique names of runs, by which sinks distinguish them.
import type { StepReport } from '../step/step-report.js';

/** Gives runs of one name in several folders names of their own, in the order in which they come. */
export class RunNames {
  readonly #names = new Map<string, string>();
  readonly #taken = new Set<string>();

  nameOf({ run, directory }: Pick<StepReport, 'run' | 'directory'>): string {
    const key = `${directory}\n${run}`;
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    let name = run;
    for (let at = 2; this.#taken.has(name); at++) name = `${run} (${at})`;
    this.#taken.add(name);
    this.#names.set(key, name);
    return name;
  }
}
