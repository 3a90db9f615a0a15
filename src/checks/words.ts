// Words of messages: values, counts, text of unknown origin, and what is wrong with an argument.
import type { ArgumentError } from './errors.js';

/** Formats a value for an error message: short, and never throwing. */
export function shown(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  if (typeof value === 'bigint') return `${value}n`;
  if (value === null || typeof value !== 'object') return typeof value === 'function' ? 'a function' : String(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (ArrayBuffer.isView(value)) return `a ${Object.prototype.toString.call(value).slice(8, -1)}`;
  return `a value of type ${Object.prototype.toString.call(value).slice(8, -1)}`;
}

/**
 * A number and what it counts: 1 row, 2 rows.
 * @param what in the plural, as `rows` or `entries`
 */
export function counted(count: number, what: string): string {
  if (count !== 1) return `${count} ${what}`;
  return `1 ${what.endsWith('ies') ? `${what.slice(0, -3)}y` : what.slice(0, -1)}`;
}

/** A sentence, with its first letter large. */
export const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

const LONGEST = 120;

/** Text from an untrusted file, fit for a terminal and a message: no control characters, no megabytes. */
export function printable(text: string): string {
  return escaped(text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
}

/** The same for what must stay whole, such as a path. */
export function escaped(text: string): string {
  // Control and format characters (terminal escapes, bidirectional overrides), line ends and lone surrogates.
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (c) => `\\u{${c.codePointAt(0)?.toString(16)}}`);
}

/** The same for text of several lines, which stay. */
export function escapedLines(text: string): string {
  return text.split('\n').map(escaped).join('\n');
}

/** Strips the argument's name from an error, so that a caller can report it under its own name. */
export function argumentProblem({ argument, message }: ArgumentError): string {
  return message.slice(`${argument}: `.length);
}
