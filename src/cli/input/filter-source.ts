// Rewards as `collapsar filter` takes them, from a step file or from logged rows.
import { inStoredPrecision } from '../../analysis/measuring/measure-step-data.js';
import { FileError } from '../../checks/errors.js';
import { IdNumbers } from '../../checks/ids.js';
import { openEngine } from '../../engine/open-engine.js';
import type { Tensor } from '../../engine/tensor/tensor.js';
import type { FilterInput } from '../../filter/input/filter-input.js';
import { columnOf, type FilterSettings } from '../../filter/input/filter-options.js';
import { isStepName } from '../../logs/input-names.js';
import type { Texts } from '../../logs/rollouts/columns.js';
import type { StepData } from '../../logs/steps/step-data.js';
import { readStepFile } from '../../logs/steps/step-file.js';
import { nameOf } from '../../logs/stores/store.js';
import { type LogChoice, type LoggedRows, loggedRows } from './logged-rows.js';

export interface FilterSource {
  /** As an error names it. */
  readonly path: string;
  readonly input: FilterInput;
  /** Remarks about where rewards come from, for a reader of the choice. */
  readonly notes: readonly string[];
  /** Group id of each row, as in `input`. */
  readonly groupOfRow: Iterable<number | bigint>;
  /** How the source names a group. */
  nameOf(group: number | bigint): string;
}

/**
 * @param path of a step file, of a rollout log or a table of rows, or `-` for rows on stdin
 * @param logs how a log is read, and which step of it is meant
 * @throws FileError naming the path, and the line where there is one
 */
export async function readFilterSource(
  path: string,
  settings: FilterSettings,
  logs: LogChoice,
  signal: AbortSignal,
): Promise<FilterSource> {
  if (isStepName(nameOf(path))) return fromStep(await readStepFile(path, { signal }), settings, signal);
  return fromRows(await loggedRows(path, 'reward', logs, signal));
}

async function fromStep(step: StepData, settings: FilterSettings, signal: AbortSignal): Promise<FilterSource> {
  const { file, rewards, group, episode, turn, correct } = step;
  if (rewards === undefined) {
    throw new FileError({ path: file }, 'has no tensor "rewards": write the reward of each row with the step');
  }
  const wantsEntropy = columnOf(settings.metric) === 'entropies';
  const outcomes = inStoredPrecision(step, 'outcome') ?? correct;
  return {
    path: file,
    notes: [],
    input: {
      rewards: {
        values: inStoredPrecision(step, 'rewards') as Float64Array | Float32Array,
        groups: group,
        episodes: episode,
        turns: episode === undefined ? undefined : turn,
      },
      outcomes,
      lengths: Float64Array.from(step.lengths as ArrayLike<number | bigint>, Number),
      entropies: wantsEntropy ? await tokenMeans(step, signal) : undefined,
    },
    groupOfRow: group,
    nameOf: String,
  };
}

/** [R] mean token entropy of each row; undefined without the tensor. Rows without tokens have 0. */
async function tokenMeans(step: StepData, signal: AbortSignal): Promise<Float64Array | undefined> {
  if (step.tokenEntropy === undefined) return undefined;
  const engine = await openEngine({ device: 'cpu' });
  try {
    const [rows, tokens] = step.tokenEntropy.shape as [number, number];
    const tensor: Tensor = { ...step.tokenEntropy, shape: [1, rows, tokens] };
    const { sums } = await engine.sumTokens(tensor, step.lengths, { signal });
    return Float64Array.from({ length: rows }, (_, row) => {
      const length = Number(step.lengths[row]);
      return length === 0 ? 0 : (sums.data[row] as number) / length;
    });
  } finally {
    await engine.dispose();
  }
}

function fromRows({ path, rows, notes, isTable }: LoggedRows): FilterSource {
  const { groupIds, groupSource, reward, outcome, episode, turn, entropy, length, prompt } = rows;
  const group = rows.group as Int32Array;
  // A log may name an episode for some of its rows; in a table each is meant.
  const episodes = isTable || isFull(episode) ? episode && numbered(path, episode) : undefined;
  const names = groupSource === 'prompt' && prompt === undefined ? groupIds.map((_, at) => String(at)) : groupIds;
  return {
    path,
    notes,
    input: {
      rewards: {
        values: reward as Float64Array,
        groups: group,
        episodes,
        turns: isTable || (episodes && turn?.every(Number.isInteger)) ? turn : undefined,
      },
      outcomes: outcome,
      lengths: length,
      entropies: entropy,
    },
    groupOfRow: group,
    nameOf: (id) => names[Number(id)] as string,
  };
}

function isFull(column: Texts | undefined): boolean {
  return column?.every((value) => value !== undefined) ?? false;
}

/** @throws FileError naming the first row that has none */
function numbered(path: string, column: Texts): Int32Array {
  const numbers = new IdNumbers<string>();
  return Int32Array.from(column, (value, row) => {
    if (value === undefined) throw new FileError({ path }, `row ${row} has no episode, but other rows have one`);
    return numbers.numberOf(value);
  });
}
