// Values of command line options, checked as they are parsed.
import { InvalidArgumentError } from 'commander';
import { MOST_SHARDS } from '../../analysis/store/most-shards.js';
import { isAddress } from '../../logs/stores/address.js';

/** A parser of whole numbers in [least, most]. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^[0-9]+$/.test(text) || value < least || value > most) {
      const range =
        most === Number.MAX_SAFE_INTEGER && !(value > most) ? `from ${least} on` : `from ${least} to ${most}`;
      throw new InvalidArgumentError(`Expected a whole number ${range}.`);
    }
    return value;
  };
}

/** Names separated by commas; the option may be given several times. */
export function nameList(text: string, before: string[] | undefined): string[] {
  const names = text.split(',').map((name) => name.trim());
  if (names.includes('')) throw new InvalidArgumentError('Expected names or globs separated by commas.');
  return [...(before ?? []), ...names];
}

/** Globs, one an option: they may have commas, in braces. */
export function globList(text: string, before: string[] | undefined): string[] {
  if (text === '') throw new InvalidArgumentError('Expected a glob.');
  return [...(before ?? []), text];
}

export function notEmpty(text: string): string {
  if (text === '') throw new InvalidArgumentError('Expected a path.');
  return text;
}

/** A name, an address, a command: any text but none. */
export function nonEmpty(text: string): string {
  if (text === '') throw new InvalidArgumentError('Expected something: this is empty.');
  return text;
}

/** A file or directory to write. */
export function outputPath(text: string): string {
  if (isAddress(text)) throw new InvalidArgumentError('Results go to a file system: expected a local path.');
  if (text === '-') throw new InvalidArgumentError('Expected a path: results do not go to stdout (./- is a file).');
  return notEmpty(text);
}

/** A number in [0, 1]. */
export function share(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !(value >= 0 && value <= 1)) {
    throw new InvalidArgumentError('Expected a number from 0 to 1.');
  }
  return value;
}

/** A finite number; which ones make sense is for the command to say. */
export function anyNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('Expected a number.');
  return value;
}

const BYTE_UNITS: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  ...Object.fromEntries(
    ['k', 'm', 'g', 't', 'p'].flatMap((letter, at) => [
      [letter, 1024 ** (at + 1)],
      [`${letter}ib`, 1024 ** (at + 1)],
      [`${letter}b`, 1000 ** (at + 1)],
    ]),
  ),
};

/** A number of bytes, also as 512MB (powers of 1,000), 2GiB or 2G (powers of 1,024). */
export function byteCount(text: string): number {
  const [, number = '', unit = ''] = /^([0-9]+(?:\.[0-9]+)?) *([a-z]*)$/i.exec(text.trim()) ?? [];
  const bytes = Math.floor(Number(number) * (BYTE_UNITS[unit.toLowerCase()] ?? Number.NaN));
  if (number === '' || !Number.isSafeInteger(bytes) || bytes < 1) {
    throw new InvalidArgumentError('Expected a number of bytes, such as 2GiB or 512MB.');
  }
  return bytes;
}

/** Which of how many shards: 3/64. */
export function shardOfAll(text: string): { index: number; count: number } {
  const [, index, count] = /^([0-9]{1,8})\/([0-9]{1,8})$/.exec(text)?.map(Number) ?? [];
  if (index === undefined || count === undefined || index >= count || count > MOST_SHARDS) {
    throw new InvalidArgumentError(`Expected I/N, with I from 0 to N − 1 and N at most ${MOST_SHARDS}, such as 0/64.`);
  }
  return { index, count };
}
