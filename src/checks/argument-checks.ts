// Checks what a caller without types may get wrong before it is used: a bare TypeError names no argument.

import { ArgumentError } from './errors.js';
import { shown } from './words.js';

/**
 * @throws ArgumentError for null, undefined, what has no properties, and a promise, which has none of those that are
 *   read
 */
export function checkObject(value: unknown, argument: string): void {
  checkAwaited(value, argument);
  if (typeof value === 'object' && value !== null) return;
  throw new ArgumentError(argument, `got ${shown(value)}, expected an object`);
}

/**
 * @throws ArgumentError unless it has entries: an array, a typed array whose memory is there, or what looks like one
 */
export function checkArray(value: unknown, argument: string): void {
  checkMemory(value, argument);
  if (typeof value === 'object' && value !== null && 'length' in value && Number.isSafeInteger(value.length)) return;
  throw new ArgumentError(argument, `got ${shown(value)}, expected an array`);
}

/** @throws ArgumentError unless it is a count, an index or a position: a safe integer that is not negative */
export function checkCount(value: unknown, argument: string): asserts value is number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return;
  throw new ArgumentError(argument, `got ${shown(value)}, expected an integer of 0 or more`);
}

/** @throws ArgumentError for an option of another name: one that is misspelt must not be silently ignored */
export function checkKnown(given: object, argument: string, known: readonly string[]): void {
  const stranger = Object.keys(given).find((name) => !known.includes(name));
  if (stranger === undefined) return;
  throw new ArgumentError(`${argument}.${stranger}`, `unknown option; known are ${known.join(', ')}`);
}

/**
 * Checks the names of an input: one that is misspelt, or an option among the data, must not be silently
 * ignored.
 * @param options names of the options, which go into another argument
 * @throws ArgumentError naming the stranger, and what may be meant
 */
export function checkFields(
  given: object,
  argument: string,
  known: readonly string[],
  options: readonly string[] = [],
): void {
  for (const name of Object.keys(given)) {
    if (known.includes(name)) continue;
    const at = `${argument}.${name}`;
    if (options.includes(name)) throw new ArgumentError(at, 'is an option: give it in the argument after the data');
    const meant = known.find((column) => !(column in given) && resemble(name, column));
    if (meant !== undefined) throw new ArgumentError(at, `is not read; ${meant} is, if that is meant`);
    throw new ArgumentError(at, `is not known here; known are ${known.join(', ')}`);
  }
}

/** Whether they differ in case, underscores, the plural, or one letter. */
function resemble(one: string, other: string): boolean {
  const [a, b] = [one, other].map((name) => name.toLowerCase().replace(/[^a-z0-9]|s$/g, '')) as [string, string];
  let same = 0;
  while (same < a.length && a[same] === b[same]) same++;
  const [restOfA, restOfB] = [a.slice(same), b.slice(same)];
  return restOfA.slice(1) === restOfB.slice(1) || restOfA.slice(1) === restOfB || restOfA === restOfB.slice(1);
}

/** The names of an options type: the compiler ensures that none is missing or added. */
export function optionNames<Options extends object>(names: Readonly<Record<keyof Options, true>>): readonly string[] {
  return Object.keys(names);
}

/** @throws ArgumentError unless it is one, or undefined */
export function checkSignal(signal: unknown, argument: string): void {
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new ArgumentError(argument, `got ${shown(signal)}, expected an AbortSignal`);
  }
}

/** @throws ArgumentError unless it is an engine (the promise of one is not) */
export function checkEngine(value: unknown, argument: string): void {
  checkAwaited(value, argument);
  const { scoreStats, sumTokens } = Object(value) as Record<string, unknown>;
  if (typeof scoreStats === 'function' || typeof sumTokens === 'function') return;
  throw new ArgumentError(argument, `got ${shown(value)}, expected an Engine: what openEngine() resolves to`);
}

/** @throws ArgumentError for a promise: it has none of the properties that are read next */
export function checkAwaited(value: unknown, argument: string): void {
  if (typeof value !== 'object' || value === null || typeof (value as { then?: unknown }).then !== 'function') return;
  throw new ArgumentError(argument, 'got a Promise: await it first');
}

/**
 * @throws ArgumentError for a typed array whose memory was transferred or shrunk: JavaScript takes it for an empty one
 */
export function checkMemory(value: unknown, argument: string): void {
  if (!ArrayBuffer.isView(value) || value instanceof DataView) return;
  try {
    (value as Uint8Array).keys();
  } catch (error) {
    const problem = `${shown(value)} whose memory is gone: it was transferred, or its buffer shrunk`;
    throw new ArgumentError(argument, problem, { cause: error });
  }
}

/** @throws ArgumentError unless it is a string */
export function checkPath(value: unknown, argument: string): void {
  if (typeof value === 'string') return;
  throw new ArgumentError(argument, `got ${shown(value)}, expected a path`);
}
