// Decides which columns of a log the reward is made of: as the user says, from a run's advantages, or by a guess.
import { counted, printable } from '../../../checks/words.js';
import {
  type AdvantageModel,
  type AdvantageRows,
  type Learned,
  type LearnedWeights,
  learnWeights,
} from './learn-weights.js';

/** Result of learning from a run's log. Plain data. */
export interface RewardWeights {
  /** By column; missing if several choices fit alike. */
  readonly weights?: Readonly<Record<string, number>> | undefined;
  /** What advantages were scaled by, and rows a group; missing if weights were not learned. */
  readonly model?: AdvantageModel | undefined;
  readonly groupSize?: number | undefined;
  /** How that is known, or why it is not. */
  readonly note: string;
}

/** Steps of a run that are looked at until their advantages decide all. */
const MOST_STEPS = 32;
/** This many steps distinguish scales that one step may have by chance. */
const ENOUGH_STEPS = 3;
/** Steps in a row that nothing fits: others will not be better. */
const MOST_MISFITS = 8;

const HOW: Readonly<Record<AdvantageModel, string>> = {
  group: 'scaled by group',
  batch: 'scaled by batch',
  none: 'not scaled',
  normalized: 'of columns normalised one by one',
};

/** @param steps the run's, from the first on; those that cannot be read give undefined */
export async function learnRunWeights(steps: AsyncIterable<AdvantageRows | undefined>): Promise<RewardWeights> {
  const pooled: AdvantageRows[] = [];
  let [best, problem]: (Learned | undefined)[] = [];
  let [seen, misfits] = [0, 0];
  const names = new Set<string>();
  for await (const rows of steps) {
    if (rows !== undefined) {
      for (const name of rows.columns.keys()) names.add(name);
      const alone = learnWeights([rows]);
      // Nothing fits it: an evaluation, or advantages of another kind.
      const isMisfit = alone.kind === 'unknown' && !alone.mayNeedMore;
      const learned = isMisfit || pooled.length === 0 ? alone : learnWeights([...pooled, rows]);
      if (learned.kind === 'unknown' && !learned.mayNeedMore) {
        problem ??= learned;
        if (++misfits === MOST_MISFITS && best === undefined) break;
      } else {
        pooled.push(rows);
        best = learned;
        if (pooled.length >= ENOUGH_STEPS && (learned.kind === 'collinear' || isAll(learned))) break;
      }
    }
    if (++seen === MOST_STEPS) break;
  }
  return asWeights(best ?? problem, [...names]);
}

const isAll = (learned: Learned): boolean => learned.kind === 'weights' && learned.constant.length === 0;

function asWeights(learned: Learned | undefined, names: readonly string[]): RewardWeights {
  if (learned?.kind === 'weights') {
    const { weights, model, groupSize } = learned;
    return { weights: Object.fromEntries(weights), model, groupSize, note: learnedNote(learned, names) };
  }
  if (learned?.kind === 'collinear') {
    const columns = learned.columns.map(printable);
    const problem = `${columns.join(' and ')} say the same within groups, so that advantages do not tell their weights`;
    return { note: `${problem}: name the columns of the reward (--reward-columns ${columns[0]})` };
  }
  return { weights: Object.fromEntries(names.map((name) => [name, 1])), note: sumNote(names, learned?.reason) };
}

function learnedNote({ weights, model, constant }: LearnedWeights, names: readonly string[]): string {
  const scale = model === 'none' ? '' : ', known up to a factor: the largest weight is taken to be 1';
  const others = names.filter((name) => !weights.has(name) && !constant.includes(name)).map(printable);
  const still = constant.map(printable).join(' and ');
  return [
    `the reward is ${sumOf(weights)}, as the advantages tell (${HOW[model]}${scale})`,
    ...(others.length > 0 ? [`no part of it: ${others.join(', ')}`] : []),
    ...(still === '' ? [] : [`${still} vary within no group, so that their weight is not known: left out`]),
    `other columns are named by ${optionOf(weights)}`,
  ].join('; ');
}

function sumNote(names: readonly string[], reason = 'the log has no advantages'): string {
  if (names.length <= 1) return `the reward is ${names.map(printable)[0] ?? 'not there'}, the only column of numbers`;
  const columns = names.map(printable).join(' + ');
  const weights = new Map(names.map((name, at) => [name, at === 0 ? 1 : 0.1]));
  return `the reward is taken to be the plain sum ${columns}, for weights are not told: ${reason}; name its columns and weights: ${optionOf(weights)}`;
}

export function sumOf(weights: ReadonlyMap<string, number>): string {
  return [...weights].map(([name, weight]) => `${short(weight)} × ${printable(name)}`).join(' + ');
}

function optionOf(weights: ReadonlyMap<string, number>): string {
  const parts = [...weights].map(([name, weight]) =>
    weight === 1 ? printable(name) : `${printable(name)}=${short(weight)}`,
  );
  return `--reward-columns ${parts.join(',')}`;
}

const short = (weight: number): string => String(Number(weight.toPrecision(6)));

export function countedColumns(names: readonly string[]): string {
  return `${counted(names.length, 'columns')} of numbers: ${names.map(printable).join(', ')}`;
}
