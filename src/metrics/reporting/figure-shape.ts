// Keys and figures -> an object of them, as the one before: a run's steps have the same figures.

/**
 * An object to which keys are added one by one becomes a dictionary, and copying that takes a hundred times as long as
 * copying the object that has the keys already: it is made that way once, and then copied and filled for each step.
 */
export class FigureShape {
  #keys: readonly string[] = [];
  #like: Record<string, number> = {};

  /** @param keys in the order of the object's */
  fill(keys: readonly string[], figures: readonly number[]): Record<string, number> {
    if (!this.#has(keys)) {
      this.#like = Object.fromEntries(keys.map((key, at) => [key, figures[at] as number]));
      this.#keys = keys;
    }
    const filled = { ...this.#like };
    for (let at = 0; at < keys.length; at++) filled[keys[at] as string] = figures[at] as number;
    return filled;
  }

  #has(keys: readonly string[]): boolean {
    if (keys.length !== this.#keys.length) return false;
    for (let at = 0; at < keys.length; at++) if (keys[at] !== this.#keys[at]) return false;
    return true;
  }
}
