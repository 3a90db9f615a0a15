// Shapes of saved data: each is a check and a type at once. What is missing or of the wrong kind is named, never
// guessed.

import { StateError } from './errors.js';
import { shown } from './words.js';

/** Takes a value of unknown origin; gives a copy of it, known to be right. @throws {DamagedPart} */
export interface Shape<T> {
  (value: unknown): T;
  /** Value before anything has been seen, new each time; none if the code decides. */
  readonly start?: () => T;
}
export type Shaped<S> = S extends Shape<infer T> ? T : never;

/**
 * Says what is wrong with a part. Each value that holds it adds its key to the path, so that a path costs nothing where
 * all is right; the reader of the whole says what that is.
 */
export class DamagedPart extends StateError {
  /** @param path from the value that was read: `judge.steps[2]`; none for that value itself */
  constructor(
    readonly problem: string,
    readonly path = '',
    options?: ErrorOptions,
  ) {
    super(`${path || 'it'} ${problem}`, options);
  }

  /** The same of a value that has the part under `key`. */
  under(key: string): DamagedPart {
    const path = this.path === '' || this.path.startsWith('[') ? `${key}${this.path}` : `${key}.${this.path}`;
    return new DamagedPart(this.problem, path, { cause: this.cause });
  }
}

/** @throws {DamagedPart} */
export function reject(value: unknown, expected: string, path = ''): never {
  throw new DamagedPart(`is ${shown(value)}, expected ${expected}`, path);
}

/** Reads the part of a value under `key`. */
export function readPart<T>(value: unknown, key: string, inner: Shape<T>): T {
  try {
    return inner(value);
  } catch (error) {
    throw error instanceof DamagedPart ? error.under(key) : error;
  }
}

/** A value that `fits`. */
export function shape<T>(expected: string, fits: (value: unknown) => boolean): Shape<T> {
  return (value) => (fits(value) ? (value as T) : reject(value, expected));
}

/** The same, with the value before anything has been seen. */
export function startingWith<T>(start: () => T, inner: (value: unknown) => T): Shape<T> {
  return Object.assign((value: unknown) => inner(value), { start });
}

/** What a run knows of a part before its first step. */
export function startOf<T>({ start }: Shape<T>): T {
  if (start === undefined) throw new TypeError('the shape says nothing of its start');
  return start();
}

/**
 * A part of what a run knows: a plain object, which only the part changes, and which its owner has in its own. What is
 * saved is a copy of it.
 */
export function kept<State extends object>(shape: Shape<State>) {
  return class {
    readonly state: State;

    constructor(state: State = startOf(shape)) {
      this.state = state;
    }

    /** A copy that later steps do not change. */
    toJSON(): State {
      return structuredClone(this.state);
    }
  };
}

/** Whether it is a whole number from 0 on. */
function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

export const count = startingWith(() => 0, shape<number>('a whole number from 0 on', isCount));

export const countTo = (most: number): Shape<number> =>
  shape(`a whole number from 0 to ${most}`, (value) => isCount(value) && value <= most);

export const integer = shape<number>('a whole number', Number.isSafeInteger);

/** A finite number. */
export const number = startingWith(() => 0, shape<number>('a finite number', Number.isFinite));

/** A finite number that is not negative. */
export const notNegative = startingWith(
  () => 0,
  shape<number>('a finite number from 0 on', (value) => Number.isFinite(value) && (value as number) >= 0),
);

/** A number, NaN and infinities included. */
export const anyNumber = shape<number>('a number', (value) => typeof value === 'number');

export const text = shape<string>('a string', (value) => typeof value === 'string');

export const flag = startingWith(
  () => false,
  shape<boolean>('true or false', (value) => typeof value === 'boolean'),
);

export const nothing = shape<null>('null', (value) => value === null);

export const oneOf = <T extends string>(...choices: readonly T[]): Shape<T> =>
  shape(choices.map((choice) => `"${choice}"`).join(' or '), (value) => choices.includes(value as T));

export const nullable = <T>(inner: Shape<T>): Shape<T | null> =>
  startingWith<T | null>(
    () => null,
    (value) => (value === null ? null : inner(value)),
  );

export const either =
  <A, B>(isFirst: (value: unknown) => boolean, first: Shape<A>, second: Shape<B>): Shape<A | B> =>
  (value) =>
    isFirst(value) ? first(value) : second(value);

/** A field that may be missing. */
export const optional =
  <T>(inner: Shape<T>): Shape<T | undefined> =>
  (value) =>
    value === undefined ? undefined : inner(value);

/** @param most entries that the code ever writes: more are foreign */
export const list = <T>(inner: Shape<T>, most = Number.POSITIVE_INFINITY): Shape<T[]> =>
  startingWith<T[]>(
    () => [],
    (value) => {
      if (!Array.isArray(value) || value.length > most) {
        return reject(value, most === Number.POSITIVE_INFINITY ? 'a list' : `a list of at most ${most}`);
      }
      const read: T[] = [];
      try {
        for (const entry of value) read.push(inner(entry));
      } catch (error) {
        throw error instanceof DamagedPart ? error.under(`[${read.length}]`) : error;
      }
      return read;
    },
  );

export const pair =
  <T>(inner: Shape<T>): Shape<[T, T]> =>
  (value) => {
    const entries = list(inner, 2)(value);
    return entries.length === 2 ? (entries as [T, T]) : reject(value, 'a list of two');
  };

export const record = <T>(inner: Shape<T>): Shape<Record<string, T>> =>
  startingWith<Record<string, T>>(
    () => ({}),
    (value) => {
      const entries = Object.entries(objectOf(value)).map(([key, entry]) => [key, readPart(entry, key, inner)]);
      return Object.fromEntries(entries) as Record<string, T>;
    },
  );

type Shapes = Readonly<Record<string, Shape<unknown>>>;
type OptionalKeys<F extends Shapes> = { [K in keyof F]: undefined extends Shaped<F[K]> ? K : never }[keyof F];

/** What `fields` gives; a field that is `optional` and missing is left out. */
export type Fields<F extends Shapes> = { [K in Exclude<keyof F, OptionalKeys<F>>]: Shaped<F[K]> } & {
  [K in OptionalKeys<F>]?: Exclude<Shaped<F[K]>, undefined>;
};

export const fields = <F extends Shapes>(shapes: F): Shape<Fields<F>> => {
  const entries = Object.entries(shapes);
  const start = () => Object.fromEntries(entries.map(([key, inner]) => [key, startOf(inner)])) as Fields<F>;
  return startingWith(start, (value) => {
    const object = objectOf(value);
    const read: Record<string, unknown> = {};
    for (const [key, inner] of entries) {
      const field = readPart(object[key], key, inner);
      if (field !== undefined) read[key] = field;
    }
    return read as Fields<F>;
  });
};

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  return reject(value, 'an object');
}

/** How a state that is saved on its own names itself, and what to do where it cannot be read. */
export interface SavedKind<Format extends string, Version extends number> {
  /** Its `format` field. */
  readonly format: Format;
  readonly version: Version;
  /** What it is: `judge`. */
  readonly is: string;
  /** What gave it: `Judge.toJSON()`. */
  readonly from: string;
  /** What to do without it: `start a new Judge`. */
  readonly without: string;
}

/** A saved state that says its format and version: read on its own, or as a part of another one. */
export class SavedState<Format extends string, Version extends number, State> {
  readonly #kind: SavedKind<Format, Version>;
  readonly #inner: Shape<State>;

  /** @param inner of all but format and version */
  constructor(kind: SavedKind<Format, Version>, inner: Shape<State>) {
    this.#kind = kind;
    this.#inner = inner;
  }

  /** Reads it as a part of another state. */
  readonly shape: Shape<State & { readonly format: Format; readonly version: Version }> = (value) => {
    const { format, version, is, from, without } = this.#kind;
    const found = Object(value) as Readonly<Record<string, unknown>>;
    if (found.format !== format) {
      throw new StateError(
        `not a saved ${is}: got ${shown(value)} with format ${shown(found.format)}, expected the object that ${from} gave ` +
          '(a JSON text must be parsed first)',
      );
    }
    if (found.version !== version) {
      throw new StateError(
        `a saved ${is} of version ${shown(found.version)}; this release reads version ${version}: restore it with the ` +
          `release that saved it, or ${without}`,
      );
    }
    return { format, version, ...this.#inner(value) };
  };

  /** @throws {StateError} for anything but what was saved */
  read(value: unknown): State & { readonly format: Format; readonly version: Version } {
    const { is, from, without } = this.#kind;
    return asSaved(
      () => this.shape(value),
      `the saved ${is}`,
      `restore from the object that ${from} gave, or ${without}`,
    );
  }
}

/** Runs `read`; a damaged part is reported with what the whole is, and what to do. @throws {StateError} */
function asSaved<T>(read: () => T, whole: string, advice: string): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof DamagedPart)) throw error;
    throw new StateError(`${whole} is damaged: ${error.message}; ${advice}`, { cause: error });
  }
}
