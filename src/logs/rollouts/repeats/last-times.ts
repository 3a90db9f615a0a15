// Keeps only the last of the stretches of a file in which the same steps were logged again.
import type { LoggedRange, LogPart } from '../log-part.js';

/** A trainer that was taken back, and logged from an earlier step on again. */
export interface Restart {
  /** The step that was logged last before. */
  readonly from: number;
  /** The first that was logged again. */
  readonly to: number;
  /** Where it begins: number of a line or row, from 1. */
  readonly line: number;
}

interface Segment {
  readonly step: number;
  readonly range: LoggedRange;
}

/** Of the rows that steps have, what a step needs to count as whole: filters make steps differ in size. */
const WHOLE_SHARE = 2 / 3;

/** Steps to either side that show how many rows one has. */
const NEIGHBOURS = 32;

/** This many are enough even if a step has rows in other files. */
const ENOUGH_NEIGHBOURS = 4;

/**
 * Streams and ranks bring late rows of a step, which belong to it. Only if two or more successive steps come whole a
 * second time, one after the other, they were logged again: then the last time counts.
 * @param parts of one file
 * @param isAlone whether no other file has rows of the part's step
 */
export function lastTimes(
  parts: readonly LogPart[],
  isAlone: (part: LogPart) => boolean,
): { readonly parts: readonly LogPart[]; readonly restarts: readonly Restart[] } {
  if (!parts.some(({ ranges }) => ranges.length > 1)) return { parts, restarts: [] };
  const runs = new Map<string | undefined, LogPart[]>();
  for (const part of parts) runs.set(part.run, [...(runs.get(part.run) ?? []), part]);
  const restarts: Restart[] = [];
  const replaced = new Set<LoggedRange>();
  for (const run of runs.values()) findRestarts(run, isAlone, restarts, replaced);
  if (restarts.length === 0) return { parts, restarts };
  const kept = parts.map((part) => ({ ...part, ranges: part.ranges.filter((range) => !replaced.has(range)) }));
  return { parts: kept, restarts: restarts.sort((a, b) => a.line - b.line) };
}

function findRestarts(
  parts: readonly LogPart[],
  isAlone: (part: LogPart) => boolean,
  restarts: Restart[],
  replaced: Set<LoggedRange>,
): void {
  const segments = parts
    .flatMap((part) => part.ranges.map((range): Segment => ({ step: part.step ?? Number.NaN, range })))
    .sort((a, b) => a.range.begin - b.range.begin);
  const counted = new CountedSteps(parts, isAlone);
  let previous = Number.NEGATIVE_INFINITY;
  for (const [at, segment] of segments.entries()) {
    if (segment.step < previous) {
      const again = counted.again(stretchFrom(segments, at));
      if (again !== undefined) {
        for (const step of again) for (const range of counted.take(step)) replaced.add(range);
        restarts.push({ from: previous, to: segment.step, line: segment.range.line + 1 });
      }
    }
    counted.add(segment);
    previous = segment.step;
  }
}

/** Rows by step, as long as the file continues without falling back. */
function stretchFrom(segments: readonly Segment[], first: number): Map<number, number> {
  const rows = new Map<number, number>();
  let last = Number.NEGATIVE_INFINITY;
  for (let at = first; at < segments.length; at++) {
    const { step, range } = segments[at] as Segment;
    if (step < last) break;
    rows.set(step, (rows.get(step) ?? 0) + range.lines);
    last = step;
  }
  return rows;
}

interface StepSoFar {
  readonly isAlone: boolean;
  /** In the whole file. */
  readonly total: number;
  /** That count, so far. */
  ranges: LoggedRange[];
  rows: number;
}

/** The steps of a file, as it is gone through. */
class CountedSteps {
  readonly #steps: ReadonlyMap<number, StepSoFar>;
  /** Ascending. */
  readonly #order: readonly number[];

  constructor(parts: readonly LogPart[], isAlone: (part: LogPart) => boolean) {
    const entries = parts.map((part): [number, StepSoFar] => {
      const total = part.ranges.reduce((sum, { lines }) => sum + lines, 0);
      return [part.step ?? Number.NaN, { isAlone: isAlone(part), total, ranges: [], rows: 0 }];
    });
    this.#steps = new Map(entries);
    this.#order = entries.map(([step]) => step).sort((a, b) => a - b);
  }

  add({ step, range }: Segment): void {
    const so = this.#of(step);
    so.ranges.push(range);
    so.rows += range.lines;
  }

  /** Whatever it has does not count any more. */
  take(step: number): readonly LoggedRange[] {
    const so = this.#of(step);
    const { ranges } = so;
    so.ranges = [];
    so.rows = 0;
    return ranges;
  }

  /** @returns the steps of the stretch that were there before, where it logs them again; undefined for late rows */
  again(stretch: ReadonlyMap<number, number>): number[] | undefined {
    const known = [...stretch.keys()].filter((step) => this.#of(step).rows > 0);
    let usual: number | undefined;
    for (const [at, step] of known.entries()) {
      const next = known[at + 1];
      if (next === undefined || this.#order[this.#place(step) + 1] !== next) continue;
      usual ??= this.#usualRows(known);
      const least = usual;
      const isWhole = (one: number): boolean => {
        const [{ rows, total }, now] = [this.#of(one), stretch.get(one) as number];
        // If there are no others, the two times together are most of what the file has of the step.
        const enough = Number.isNaN(least) ? Math.max(rows, now) : least;
        if (Number.isNaN(least) && rows + now < WHOLE_SHARE * total) return false;
        return Math.min(rows, now) >= WHOLE_SHARE * enough;
      };
      if (isWhole(step) && isWhole(next)) return known;
    }
    return undefined;
  }

  /**
   * How many rows the steps around these have: their lower quartile, as some may have been logged again. NaN where
   * there are none; infinite if too few steps are around these and one of these has rows in other files, too.
   */
  #usualRows(known: readonly number[]): number {
    const [first, last] = [this.#place(known[0] as number), this.#place(known.at(-1) as number)];
    const others = [
      ...this.#order.slice(Math.max(0, first - NEIGHBOURS), first),
      ...this.#order.slice(last + 1, last + 1 + NEIGHBOURS),
    ];
    if (others.length < ENOUGH_NEIGHBOURS && !known.every((step) => this.#of(step).isAlone))
      return Number.POSITIVE_INFINITY;
    const rows = others.map((step) => this.#of(step).total).sort((a, b) => a - b);
    return rows[rows.length >> 2] ?? Number.NaN;
  }

  #of(step: number): StepSoFar {
    return this.#steps.get(step) as StepSoFar;
  }

  #place(step: number): number {
    let [low, high] = [0, this.#order.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#order[middle] as number) < step) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
