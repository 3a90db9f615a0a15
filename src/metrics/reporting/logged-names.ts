// Names the figures of a sample label as they are logged, and the objects that hold them: made once per label, since
// all steps of a long run share them.

/** What the figures of a label are called, and the objects that hold them. */
export interface LoggedNames {
  readonly label: string;
  /** By key: there are about a hundred, and rebuilding them at every step of a long run costs more than its figures. */
  readonly loggedKeys: Map<string, string>;
  readonly values: FigureShape;
  readonly logged: FigureShape;
}

/** A run has a few labels. A caller that makes a label from every step's number must not fill the memory. */
const MOST_LABELS = 64;

const NAMES = new Map<string, LoggedNames>();

export function namesOf(label: string): LoggedNames {
  let names = NAMES.get(label);
  if (names === undefined) {
    names = { label, loggedKeys: new Map(), values: new FigureShape(), logged: new FigureShape() };
    if (NAMES.size < MOST_LABELS) NAMES.set(label, names);
  }
  return names;
}

export function loggedKey({ label, loggedKeys }: LoggedNames, key: string): string {
  let logged = loggedKeys.get(key);
  if (logged === undefined) {
    logged = `${label}/${key}`;
    loggedKeys.set(key, logged);
  }
  return logged;
}

/**
 * An object to which keys are added one by one becomes a dictionary, and copying that takes a hundred times as long as
 * copying the object that has the keys already: it is made that way once, and then copied and filled for each step.
 */
class FigureShape {
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
