// Computes a step's reward from its columns of numbers, by given or learned weights.
import { FileError } from '../../../checks/errors.js';
import { type AdvantageRows, learnWeights, possibleGroupSizes } from './learn-weights.js';
import { dot } from './null-space.js';
import { countedColumns, type RewardWeights, sumOf } from './reward-weights.js';

/** Weights by column. */
export type RewardColumns = Readonly<Record<string, number>>;

export interface TotalReward {
  /** A value a row: NaN if no column scores it; missing if it is not known. */
  readonly reward: Float64Array | undefined;
  /** The columns that it is a weighted sum of. */
  readonly parts: Readonly<Record<string, Float64Array>>;
  readonly note: string | undefined;
}

/** Of what a sum must be beside the advantages that came of it: more is of other weights. */
const MISFIT = 1e-3;

/**
 * @param given what the user says; without it what was learned from the run's log counts
 * @throws FileError naming a column that is not there
 */
export function totalReward(
  columns: ReadonlyMap<string, Float64Array>,
  advantage: Float64Array | undefined,
  prompts: readonly unknown[] | undefined,
  given: RewardColumns | undefined,
  learned: RewardWeights | undefined,
  path: string,
): TotalReward {
  const rows = [...columns.values()][0]?.length ?? 0;
  if (given !== undefined) {
    const missing = Object.keys(given).find((name) => !columns.has(name));
    if (missing !== undefined) {
      const problem = `has no column of numbers ${JSON.stringify(missing)} (--reward-columns); there are ${countedColumns([...columns.keys()])}`;
      throw new FileError({ path }, problem);
    }
    return { ...sum(columns, new Map(Object.entries(given)), rows), note: undefined };
  }
  const known = learned?.weights ?? (learned === undefined ? oneEach(columns) : undefined);
  if (known === undefined) return { reward: undefined, parts: {}, note: learned?.note };
  const total = sum(columns, new Map(Object.entries(known)), rows);
  const { groupSize, model, note } = learned ?? {};
  if (advantage === undefined || groupSize === undefined || model === 'normalized') return { ...total, note };
  if (fits(total.reward, advantage, groupSize)) return { ...total, note };
  const step: AdvantageRows = { advantage, columns, groupSizes: possibleGroupSizes(prompts ?? []) };
  const own = learnWeights([step]);
  if (own.kind !== 'weights') {
    return { ...total, note: `${note}; the advantages of this step do not fit these weights` };
  }
  const words = `the reward of this step is ${sumOf(own.weights)}, as its advantages tell: those of the run's first steps do not fit`;
  return { ...sum(columns, own.weights, rows), note: words };
}

const oneEach = (columns: ReadonlyMap<string, unknown>): RewardColumns =>
  Object.fromEntries([...columns.keys()].map((name) => [name, 1]));

/** NaN adds nothing. */
function sum(
  columns: ReadonlyMap<string, Float64Array>,
  weights: ReadonlyMap<string, number>,
  rows: number,
): Pick<TotalReward, 'parts'> & { readonly reward: Float64Array } {
  const parts = [...weights].flatMap(([name, weight]) => {
    const column = columns.get(name);
    return column === undefined ? [] : [{ name, weight, column }];
  });
  const reward = new Float64Array(rows).fill(Number.NaN);
  for (let row = 0; row < rows; row++) {
    for (const { weight, column } of parts) {
      const value = column[row] as number;
      if (Number.isNaN(value)) continue;
      const before = reward[row] as number;
      reward[row] = (Number.isNaN(before) ? 0 : before) + weight * value;
    }
  }
  return { reward, parts: Object.fromEntries(parts.map(({ name, column }) => [name, column])) };
}

/** Whether advantages are an affine function of the reward in each group. */
function fits(reward: Float64Array, advantage: Float64Array, groupSize: number): boolean {
  let [beside, all] = [0, 0];
  for (let first = 0; first < reward.length; first += groupSize) {
    const used: number[] = [];
    for (let row = first; row < Math.min(first + groupSize, reward.length); row++)
      if (Number.isFinite(reward[row]) && Number.isFinite(advantage[row])) used.push(row);
    const own = centred(used.map((row) => advantage[row] as number));
    const size = dot(own, own);
    if (size === 0) continue;
    const total = centred(used.map((row) => reward[row] as number));
    const along = dot(own, total) / size;
    all += dot(total, total);
    beside += total.reduce((left, value, at) => left + (value - along * (own[at] as number)) ** 2, 0);
  }
  return beside <= MISFIT ** 2 * all;
}

function centred(values: readonly number[]): number[] {
  const mean = values.reduce((total, value) => total + value, 0) / values.length;
  return values.map((value) => value - mean);
}
