// Learns from advantages which columns a trainer's reward is made of, and their weights: within a group the advantage
// is an affine function of the weighted sum, so the true weights are in a null space that needs no scale or offset.
import { type Directions, dot, Triangle } from './null-space.js';

/** What one step's log has to learn from. */
export interface AdvantageRows {
  readonly advantage: Float64Array;
  /** By name, each a value a row; NaN if the column does not score it. */
  readonly columns: ReadonlyMap<string, Float64Array>;
  /** Sizes that groups may have, runs of rows, the likeliest first. */
  readonly groupSizes: readonly number[];
}

/** How advantages come from rewards: the simplest first. */
export type AdvantageModel = 'group' | 'batch' | 'none' | 'normalized';

export interface LearnedWeights {
  readonly kind: 'weights';
  readonly model: AdvantageModel;
  readonly groupSize: number;
  /** Columns of a weight other than 0. Unless `model` is `none`, known up to a factor: the largest is 1. */
  readonly weights: ReadonlyMap<string, number>;
  /** Columns that vary in no group: their weight cannot be known. */
  readonly constant: readonly string[];
}

export type Learned =
  | LearnedWeights
  /** Several weights of these columns fit alike. */
  | { readonly kind: 'collinear'; readonly columns: readonly string[] }
  /** Nothing fits, or too much does. */
  | { readonly kind: 'unknown'; readonly reason: string; readonly mayNeedMore: boolean };

/** Of what fits, the most that may be left, relative to columns of length 1. */
const FITS = 1e-5;
/** A column varies by more than what rounding leaves of equal numbers. */
const VARIES = 1e-9;
/** Of the largest advantage, what rounding may leave in a group that has none. */
const DEAD = 1e-3;
/** Equations beyond the weights that must agree. */
const REDUNDANT = 2;
/** Scales are taken to be one where they differ by less. */
const SAME_SCALE = 1e-4;
/** TRL's reward and advantage are float32. */
const FLOAT32 = 2 ** -24;
/** What TRL adds to standard deviations. */
const ADDED = 1e-4;
/** If it is more of the scale, weights are so small that another model is likelier. */
const MOST_ADDED = 1.1;
/** Of a column's part in a relation. */
const RELATED = 1e-8;
/** Of weights: they are float32 in TRL, as what they are multiplied with. */
const ROUNDED = 4 * FLOAT32;
/** A weight may be off by this many standard errors. */
const ERRORS = 3;

/** Rows that share an offset. */
interface Unit {
  readonly step: number;
  /** Without their mean. */
  readonly advantage: Float64Array;
  readonly columns: readonly Float64Array[];
}

/** @param steps whose trainer weighs alike, one at least */
export function learnWeights(steps: readonly AdvantageRows[]): Learned {
  const names = [...new Set(steps.flatMap(({ columns }) => [...columns.keys()]))];
  let best: Learned = {
    kind: 'unknown',
    reason: 'nothing that TRL makes of rewards gives these advantages',
    mayNeedMore: false,
  };
  const sizes = new Set((steps[0]?.groupSizes ?? []).filter((size) => steps.every((step) => fitsRows(step, size))));
  if (sizes.size === 0) return { ...best, reason: 'nothing tells the groups' };
  for (const groupSize of sizes) {
    for (const model of ['group', 'batch', 'none', 'normalized'] as const) {
      const found = new Fit(steps, names, groupSize, model).learn();
      if (found.kind !== 'unknown') return found;
      // What more steps may decide is worth more than what they cannot; two rows a group never show their scale.
      const isOpen = found.mayNeedMore && !(model === 'group' && groupSize === 2);
      if (isOpen && !(best.kind === 'unknown' && best.mayNeedMore)) best = found;
    }
  }
  return best;
}

function fitsRows({ advantage }: AdvantageRows, size: number): boolean {
  return advantage.length % size === 0;
}

/** Sizes that groups of consecutive rows may have, by the labels of the rows' prompts: one may come twice in a row. */
export function possibleGroupSizes(prompts: readonly unknown[]): number[] {
  let size = 0;
  for (let row = 0, begin = 0; row < prompts.length; row++) {
    if (row + 1 < prompts.length && prompts[row + 1] === prompts[row]) continue;
    size = commonDivisor(row + 1 - begin, size);
    begin = row + 1;
  }
  // If prompts do not come in runs they say nothing.
  if (size === 1) size = prompts.length;
  const sizes: number[] = [];
  for (let divisor = size; divisor >= 2; divisor--) if (size % divisor === 0) sizes.push(divisor);
  return sizes;
}

function commonDivisor(one: number, other: number): number {
  return other === 0 ? one : commonDivisor(other, one % other);
}

class Fit {
  readonly #units: Unit[] = [];
  /** Of the columns beside the advantage, and of the columns. */
  readonly #beside: Triangle;
  readonly #all: Triangle;
  readonly #equations: number;
  /** Largest size of a value, by column. */
  readonly #most: number[];

  constructor(
    private readonly steps: readonly AdvantageRows[],
    private readonly names: readonly string[],
    private readonly groupSize: number,
    private readonly model: AdvantageModel,
  ) {
    this.#beside = new Triangle(names.length);
    this.#all = new Triangle(names.length);
    this.#most = names.map(() => 0);
    for (const [number, step] of steps.entries()) this.#takeStep(step, number);
    const blocks = this.#blocks();
    for (const block of blocks) this.#takeBlock(block);
    // Each unit has an offset, and each block a scale.
    this.#equations = this.#all.count - this.#units.length - blocks.length;
  }

  learn(): Learned {
    const { names, model } = this;
    if (this.#units.length === 0) return unknown('no group has advantages', true);
    const scales = names.map((_, at) => this.#all.lengthOf(at));
    const isVarying = (at: number): boolean =>
      (scales[at] as number) > VARIES * (this.#most[at] as number) * Math.sqrt(this.#all.count);
    const varying = names.map((_, at) => at).filter(isVarying);
    const constant = names.filter((_, at) => !isVarying(at));
    if (varying.length === 0) return unknown('no column varies within groups', true);
    const scaled = (triangle: Triangle, columns: readonly number[]): Directions =>
      triangle.directions(
        columns,
        columns.map((at) => scales[at] as number),
      );
    const relationsOf = (columns: readonly number[]): readonly (readonly number[])[] => {
      const { sizes, vectors } = scaled(this.#all, columns);
      return vectors.filter((_, at) => (sizes[at] as number) <= FITS);
    };
    /** Of weights, beside what columns say of each other. */
    const solutions = (columns: readonly number[]): number =>
      columns.length === 0
        ? 0
        : this.#vanishing(scaled(this.#beside, columns), columns, scales) - relationsOf(columns).length;
    const found = solutions(varying);
    // With as many equations as weights something always fits.
    if (found > 0 && this.#equations < varying.length + REDUNDANT)
      return unknown('too few groups have advantages', true);
    if (found <= 0) return unknown('nothing that TRL makes of rewards gives these advantages', false);
    if (found > 1) return unknown('too few groups have advantages', true);
    const sets = relatedSets(relationsOf(varying), varying);
    let used = varying.filter((at) => !sets.some((set) => set.includes(at)));
    if (solutions(used) !== 1) {
      const needed = sets.filter((set) => solutions(varying.filter((at) => !set.includes(at))) <= 0);
      const columns = (needed.length > 0 ? needed : sets).flat().sort((one, other) => one - other);
      return { kind: 'collinear', columns: columns.map((at) => names[at] as string) };
    }
    // What has no part in it only adds noise.
    const [first] = scaled(this.#beside, used).vectors as [readonly number[]];
    const most = Math.max(...first.map(Math.abs));
    used = used.filter((_, at) => Math.abs(first[at] as number) > FITS * most);
    const { sizes, vectors } = scaled(this.#beside, used);
    const [vector] = vectors as [readonly number[]];
    const error = (sizes[0] as number) / (Math.sqrt(this.#beside.count) * (sizes[1] ?? 1));
    const raw = vector.map((part, at) => part / (scales[used[at] as number] as number));
    const factors = this.#scalesOf(raw, used);
    const sign = Math.sign(factors[0]?.scale ?? 0);
    if (sign === 0 || factors.some(({ scale }) => Math.sign(scale) !== sign)) {
      return unknown('nothing that TRL makes of rewards gives these advantages', false);
    }
    const known = model === 'normalized' ? model : this.#modelOf(factors, raw, used);
    const scale = known === 'none' ? meanOf(factors) : sign * Math.max(...raw.map(Math.abs));
    const errors = used.map((at) => error / Math.abs((scales[at] as number) * scale));
    const rounded = roundedWeights(
      raw.map((weight) => weight / scale),
      errors,
      known === 'none' ? [1, (this.groupSize - 1) / this.groupSize] : [1],
    );
    const weights = new Map(used.map((at, index) => [names[at] as string, rounded[index] as number]));
    return { kind: 'weights', model: known, groupSize: this.groupSize, weights, constant };
  }

  /** How many directions vanish beside the advantage: to the tolerance, or as far as float32 can tell. */
  #vanishing({ sizes, vectors }: Directions, columns: readonly number[], scales: readonly number[]): number {
    return sizes.filter((size, direction) => {
      if (size <= FITS) return true;
      const vector = vectors[direction] as readonly number[];
      // What rounding of sums of this size leaves, in all rows together.
      const rounding = columns.reduce(
        (sum, at, index) =>
          sum + Math.abs(vector[index] as number) * ((this.#most[at] as number) / (scales[at] as number)),
        0,
      );
      return direction === 0 && size <= Math.min(4 * FLOAT32 * rounding * Math.sqrt(this.#beside.count), 100 * FITS);
    }).length;
  }

  #takeStep({ advantage, columns: byName }: AdvantageRows, step: number): void {
    const columns = this.names.map((name) => byName.get(name) ?? new Float64Array(advantage.length).fill(Number.NaN));
    const { groupSize, model } = this;
    const read = columns.map((column) =>
      model === 'normalized' ? normalized(column, groupSize) : { values: column, sizes: column },
    );
    const rows: number[] = [];
    const unitOf = (used: readonly number[]): void => {
      const own = centred(used.map((row) => advantage[row] as number));
      // Groups whose advantages are all 0 say nothing of weights.
      if (!own.some((value) => value !== 0)) return;
      const parts = read.map(({ values }) => used.map((row) => zeroIfNaN(values[row] as number)));
      for (const [at, { sizes }] of read.entries()) {
        for (const row of used)
          this.#most[at] = Math.max(this.#most[at] as number, Math.abs(zeroIfNaN(sizes[row] as number)));
      }
      this.#units.push({ step, advantage: own, columns: parts.map(centred) });
    };
    const most = advantage.reduce((largest, value) => Math.max(largest, Math.abs(zeroIfNaN(value))), 0);
    for (let first = 0; first < advantage.length; first += groupSize) {
      const group = Array.from({ length: groupSize }, (_, at) => first + at);
      if (group.every((row) => !(Math.abs(advantage[row] as number) > DEAD * most))) continue;
      if (model === 'normalized' && read.some((column) => isRounding(column, first, groupSize))) continue;
      // A row that nothing scores has the advantage 0, whatever its group's mean.
      const used = group.filter((row) => {
        const own = advantage[row] as number;
        return !Number.isNaN(own) && !(own === 0 && columns.some((column) => Number.isNaN(column[row] as number)));
      });
      if (model === 'normalized') rows.push(...used);
      else unitOf(used);
    }
    if (rows.length > 0) unitOf(rows);
  }

  /** Units that share a scale. */
  #blocks(): Unit[][] {
    if (this.model === 'group') return this.#units.map((unit) => [unit]);
    if (this.model === 'none') return [this.#units];
    return this.steps.map((_, step) => this.#units.filter((unit) => unit.step === step));
  }

  #takeBlock(units: readonly Unit[]): void {
    const size = units.reduce((sum, { advantage }) => sum + dot(advantage, advantage), 0);
    const along = this.names.map(
      (_, at) =>
        units.reduce((sum, { advantage, columns }) => sum + dot(advantage, columns[at] as Float64Array), 0) / size,
    );
    for (const { advantage, columns } of units) {
      for (let row = 0; row < advantage.length; row++) {
        const own = advantage[row] as number;
        this.#all.add(columns.map((column) => column[row] as number));
        this.#beside.add(columns.map((column, at) => (column[row] as number) - own * (along[at] as number)));
      }
    }
  }

  /** What the weighted sum is divided by to be the advantage, in each unit. */
  #scalesOf(weights: readonly number[], used: readonly number[]): UnitScale[] {
    return this.#units.map(({ step, advantage, columns }) => {
      const total = advantage.map((_, row) =>
        used.reduce(
          (sum, at, index) => sum + (weights[index] as number) * ((columns[at] as Float64Array)[row] as number),
          0,
        ),
      );
      const size = dot(advantage, advantage);
      return { step, size, scale: dot(advantage, total) / size, spread: spreadIn(total) };
    });
  }

  /** Which of the models that are affine in each group these scales are of. */
  #modelOf(factors: readonly UnitScale[], weights: readonly number[], used: readonly number[]): AdvantageModel {
    const isByGroup = isSpread(factors.map(({ scale, spread }) => [Math.abs(scale), spread]));
    if (isByGroup) return 'group';
    const bySteps = new Map<number, number[]>();
    for (const { step, scale } of factors) bySteps.set(step, [...(bySteps.get(step) ?? []), Math.abs(scale)]);
    if (![...bySteps.values()].every(isOne)) return 'group';
    const ofBatches = [...bySteps].map(
      ([step, [scale]]) => [scale as number, this.#spreadOf(this.steps[step] as AdvantageRows, weights, used)] as const,
    );
    if (isSpread(ofBatches) && ofBatches.every(([scale, spread]) => scale <= MOST_ADDED * spread)) return 'batch';
    return isOne([...bySteps.values()].flat()) ? 'none' : 'batch';
  }

  /** Of the weighted sums of a whole step. */
  #spreadOf({ columns, advantage }: AdvantageRows, weights: readonly number[], used: readonly number[]): number {
    const parts = used.map((at) => columns.get(this.names[at] as string));
    const totals: number[] = [];
    for (let row = 0; row < advantage.length; row++) {
      const values = parts.map((part) => part?.[row] ?? Number.NaN);
      if (values.every(Number.isNaN)) continue;
      totals.push(values.reduce((sum, value, at) => sum + zeroIfNaN(value) * (weights[at] as number), 0));
    }
    return spreadIn(centred(totals));
  }
}

interface UnitScale {
  readonly step: number;
  /** Of its advantages. */
  readonly size: number;
  readonly scale: number;
  /** Standard deviation of the weighted sum. */
  readonly spread: number;
}

function meanOf(factors: readonly UnitScale[]): number {
  const all = factors.reduce((sum, { size }) => sum + size, 0);
  return factors.reduce((sum, { scale, size }) => sum + scale * (size / all), 0);
}

/** Whether scales are standard deviations and a constant, the same for all, in units that are not known. */
function isSpread(pairs: readonly (readonly [scale: number, spread: number])[]): boolean {
  const beyond = pairs.map(([scale, spread]) => scale - spread).sort((a, b) => a - b);
  const added = beyond[beyond.length >> 1] as number;
  return pairs.every(
    ([scale, spread]) => Math.abs(scale - spread - added) <= SAME_SCALE * scale && added >= -SAME_SCALE * scale,
  );
}

function isOne(values: readonly number[]): boolean {
  return Math.max(...values) <= (1 + SAME_SCALE) * Math.min(...values);
}

function spreadIn(values: Float64Array): number {
  return Math.sqrt(dot(values, values) / Math.max(1, values.length - 1));
}

/** Columns of which some combination vanishes, those that have one together. */
function relatedSets(relations: readonly (readonly number[])[], columns: readonly number[]): number[][] {
  const sets: number[][] = [];
  // The projection on what vanishes has blocks, whichever vectors span it.
  const shared = (one: number, other: number): number =>
    relations.reduce((sum, vector) => sum + (vector[one] as number) * (vector[other] as number), 0);
  const left = new Set(columns.keys());
  for (const first of left) {
    if (shared(first, first) <= RELATED) continue;
    const set = [first];
    left.delete(first);
    for (const one of set) {
      for (const other of left) {
        if (Math.abs(shared(one, other)) <= RELATED) continue;
        set.push(other);
        left.delete(other);
      }
    }
    sets.push(set.map((at) => columns[at] as number));
  }
  return sets;
}

/**
 * Whether a column that varies in other groups has only one value here, of which the mean in float32 may be another:
 * divided by next to nothing, that is no longer small.
 */
function isRounding({ values, sizes }: { values: Float64Array; sizes: Float64Array }, first: number, size: number) {
  const own = values.subarray(first, first + size);
  if (!own.every(Number.isNaN) || sizes.subarray(first, first + size).every((one) => one === 0)) return false;
  return values.some((value) => !Number.isNaN(value));
}

/** As TRL normalises a column by itself; and the sizes of numbers that were subtracted for it. */
function normalized(column: Float64Array, groupSize: number): { values: Float64Array; sizes: Float64Array } {
  const values = new Float64Array(column.length).fill(Number.NaN);
  const sizes = new Float64Array(column.length);
  for (let first = 0; first < column.length; first += groupSize) {
    const known = column.subarray(first, first + groupSize).filter((value) => !Number.isNaN(value));
    if (known.length < 2) continue;
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    const spread = spreadIn(known.map((value) => value - mean));
    // Of equal numbers nothing is left but rounding, unless their sum is exact.
    if (spread <= VARIES * Math.abs(mean)) {
      if (!Number.isInteger(4 * mean)) sizes.fill(Math.abs(mean), first, first + groupSize);
      continue;
    }
    for (let row = first; row < first + groupSize; row++) {
      values[row] = ((column[row] as number) - mean) / (spread + ADDED);
      sizes[row] = (column[row] as number) / (spread + ADDED);
    }
  }
  return { values, sizes };
}

/**
 * Weights as somebody wrote them, where they are so to within their errors: sums of rewards are then equal where they
 * were.
 * @param factors of all weights together: of several the first that makes all of them such numbers
 */
function roundedWeights(weights: readonly number[], errors: readonly number[], factors: readonly number[]): number[] {
  const allWritten = (factor: number, tolerance: number): number[] | undefined => {
    const digits = factor === 1 ? 4 : 2;
    const found = weights.map((weight, at) => {
      return written(factor * weight, tolerance * factor * (errors[at] as number), digits);
    });
    return found.includes(undefined) ? undefined : (found as number[]);
  };
  // Another factor than 1 is for weights that are far from it.
  if (allWritten(1, 10 * ERRORS) === undefined) {
    for (const factor of factors) {
      const found = allWritten(factor, ERRORS);
      if (found !== undefined) return found;
    }
  }
  return weights.map((weight, at) => written(weight, ERRORS * (errors[at] as number), 4) ?? weight);
}

/** The shortest decimal that a number is, if its error is small enough. */
function written(weight: number, error: number, most: number): number | undefined {
  const tolerance = Math.max(error, ROUNDED * Math.abs(weight));
  for (let digits = 1; digits <= most; digits++) {
    const short = Number(weight.toPrecision(digits));
    const step = 10 ** (Math.floor(Math.log10(Math.abs(weight))) - digits + 1);
    if (Math.abs(weight - short) <= tolerance && tolerance <= step / 20) return short;
  }
  return undefined;
}

const unknown = (reason: string, mayNeedMore: boolean): Learned => ({ kind: 'unknown', reason, mayNeedMore });

const zeroIfNaN = (value: number): number => (Number.isNaN(value) ? 0 : value);

function centred(values: readonly number[]): Float64Array {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Float64Array.from(values, (value) => value - mean);
}
