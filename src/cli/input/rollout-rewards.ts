// Where `collapsar filter` gets rewards from a trainer's rollout log: one step of it.
import { logMemory } from '../../analysis/measuring/memory-plan.js';
import { FileError } from '../../checks/errors.js';
import { counted } from '../../checks/words.js';
import { isLogName } from '../../logs/input-names.js';
import type { Texts } from '../../logs/rollouts/columns.js';
import { type LogOptions, logReading } from '../../logs/rollouts/log-options.js';
import type { LoggedColumns } from '../../logs/rollouts/rollout.js';
import { type LoggedStep, RolloutLogs } from '../../logs/rollouts/rollout-logs.js';
import { UnreadFileError } from '../../logs/rollouts/rows/unread-file.js';
import type { FilterSource } from './filter-source.js';

/** How a log is read, and which of its steps is meant. */
export interface LogChoice extends LogOptions {
  readonly step?: number | undefined;
  /** Bytes that reading it may take, about. */
  readonly maxMemory?: number | undefined;
}

/**
 * @param path of a file, a folder or a glob
 * @returns undefined, or what can be done, where nobody says how it is to be read, and no reader of logs knows it: lines of rewards
 * @throws FileError for what cannot be used, several steps where none is chosen, or one without rewards or groups
 */
export async function fromRollouts(
  path: string,
  { step, maxMemory, ...options }: LogChoice,
  signal: AbortSignal,
): Promise<FilterSource | UnreadFileError | undefined> {
  const isSaid = step !== undefined || Object.keys(options).length > 0;
  if (!isSaid && !isLogName(path)) return undefined;
  const logs = new RolloutLogs({ ...logReading(options), maxMemory: logMemory({ maxMemory }) }, signal);
  try {
    const { steps, problems, notes } = await logs.find(path);
    const [problem] = problems;
    if (steps.length === 0 && !isSaid && !/\.parquet$/.test(path)) {
      return problem instanceof UnreadFileError ? problem : undefined;
    }
    if (problem !== undefined) throw problem;
    const { step: read, errors } = await logs.read(chosen(path, steps, step, notes));
    // A group that lacks a rollout is another group.
    if (errors[0] !== undefined) throw errors[0];
    return sourceOf(path, read as LoggedColumns, notes);
  } finally {
    await logs.close();
  }
}

function chosen(
  path: string,
  steps: readonly LoggedStep[],
  step: number | undefined,
  notes: readonly string[],
): LoggedStep {
  const fitting = step === undefined ? steps : steps.filter((one) => one.step === step);
  const [one, other] = fitting;
  if (one !== undefined && other === undefined) return one;
  const [first, last] = [steps[0], steps.at(-1)];
  const has = `has ${counted(steps.length, 'steps')}, ${first?.step} to ${last?.step}`;
  if (one === undefined) {
    throw new FileError({ path }, [`${has}: none of them is ${step}`, ...notes].join('; '));
  }
  const runs = new Set(fitting.map(({ runDirectory, run }) => `${runDirectory}\n${run}`)).size;
  const advice = runs > 1 ? `of ${runs} runs: name the files of one` : 'say which is meant (--step N)';
  throw new FileError({ path }, `${has}, ${advice}`);
}

function sourceOf(path: string, step: LoggedColumns, notes: readonly string[]): FilterSource {
  const { group, groupIds, groupSource, reward, outcome, episode, turn, entropy, length, absent, prompt } = step;
  if (reward === undefined) throw new FileError({ path }, absent.reward ?? 'the log has no reward');
  if (group === undefined) throw new FileError({ path }, absent.group ?? 'the log has no groups');
  const episodes = isFull(episode) ? numbered(episode) : undefined;
  const names = groupSource === 'prompt' && prompt === undefined ? groupIds.map((_, at) => String(at)) : groupIds;
  return {
    path,
    notes: [...notes, ...step.notes],
    input: {
      rewards: {
        values: reward,
        groups: group,
        episodes,
        turns: episodes && turn?.every(Number.isInteger) ? Int32Array.from(turn) : undefined,
      },
      outcomes: outcome,
      lengths: length,
      entropies: entropy,
    },
    groupOfRow: group,
    nameOf: (id) => names[Number(id)] as string,
    nameOfRow: (row) => `row ${row}`,
    nameOfReward: String,
  };
}

function isFull(column: Texts | undefined): column is readonly string[] {
  return column?.every((value) => value !== undefined) ?? false;
}

function numbered(column: readonly string[]): Int32Array {
  const known = new Map<string, number>();
  return Int32Array.from(column, (value) => {
    const number = known.get(value) ?? known.size;
    known.set(value, number);
    return number;
  });
}
