// Saved JSON -> the state that it claims to be, field by field: what is missing or of the wrong kind is named, never
// guessed.

import { StateError } from './errors.js';
import { shown } from './words.js';

/** Takes a value of unknown origin; gives a copy of it, known to be right. @throws {StateError} naming the path. */
export type Shape<T> = (value: unknown, path: string) => T;
export type Shaped<S> = S extends Shape<infer T> ? T : never;

function reject(value: unknown, path: string, expected: string): never {
  throw new StateError(
    `the saved judge is damaged: ${path} is ${shown(value)}, expected ${expected}; ` +
      'restore from the object that toJSON() gave, or start a new Judge',
  );
}

export const number: Shape<number> = (value, path) =>
  typeof value === 'number' && Number.isFinite(value) ? value : reject(value, path, 'a finite number');

/** Whether it is a whole number from 0 on. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

export const count: Shape<number> = (value, path) => (isCount(value) ? value : reject(value, path, 'a whole number'));

export const text: Shape<string> = (value, path) =>
  typeof value === 'string' ? value : reject(value, path, 'a string');

export const flag: Shape<boolean> = (value, path) =>
  typeof value === 'boolean' ? value : reject(value, path, 'true or false');

export const oneOf =
  <T extends string>(...choices: readonly T[]): Shape<T> =>
  (value, path) =>
    choices.includes(value as T)
      ? (value as T)
      : reject(value, path, choices.map((choice) => `"${choice}"`).join(' or '));

export const nullable =
  <T>(shape: Shape<T>): Shape<T | null> =>
  (value, path) =>
    value === null ? null : shape(value, path);

/** @param most entries that the code ever writes: more are foreign */
export const list =
  <T>(shape: Shape<T>, most: number): Shape<T[]> =>
  (value, path) => {
    if (!Array.isArray(value) || value.length > most) return reject(value, path, `a list of at most ${most}`);
    return value.map((entry, at) => shape(entry, `${path}[${at}]`));
  };

export const record =
  <T>(shape: Shape<T>): Shape<Record<string, T>> =>
  (value, path) => {
    const entries = Object.entries(objectOf(value, path)).map(([key, entry]) => [key, shape(entry, `${path}.${key}`)]);
    return Object.fromEntries(entries) as Record<string, T>;
  };

export const fields =
  <F extends Record<string, Shape<unknown>>>(shapes: F): Shape<{ [K in keyof F]: Shaped<F[K]> }> =>
  (value, path) => {
    const object = objectOf(value, path);
    const read = Object.entries(shapes).map(([key, shape]) => [key, shape(object[key], `${path}.${key}`)]);
    return Object.fromEntries(read) as { [K in keyof F]: Shaped<F[K]> };
  };

function objectOf(value: unknown, path: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return reject(value, path, 'an object');
  return value as Record<string, unknown>;
}
