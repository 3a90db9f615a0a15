// A sample's label -> what its figures are called where they are logged, and the objects that hold them: made once a
// label, since a long run's steps have the same.
import { FigureShape } from './figure-shape.js';

/** What the figures of a label are called, and the objects that hold them. */
export interface LoggedNames {
  readonly label: string;
  /** By key: there are some hundred, and making them anew for every step of a long run costs more than its figures. */
  readonly loggedKeys: Map<string, string>;
  readonly values: FigureShape;
  readonly logged: FigureShape;
}

/** A run has a few labels. Whoever makes one of every step's number must not fill the memory with them. */
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
