// Gathers the rows of one step from any number of files into columns: finds groups, leaves out repeats, and splits
// reasoning from what follows it.
import { FileError } from '../../checks/errors.js';
import { counted } from '../../checks/words.js';
import {
  COLUMN_NAMES,
  COLUMNS,
  type Rollout,
  type RolloutColumn,
  type RowValues,
  type StepColumns,
  type Texts,
  type TokenLists,
} from './columns.js';
import type { RolloutFormat } from './format.js';
import { groupsOf } from './groups.js';
import type { LoggedText } from './logged-text.js';
import { actionIn, type ReasoningTags, splitTokens, splitter } from './reasoning.js';
import type { RewardWeights } from './rewards/reward-weights.js';
import { type RewardColumns, totalReward } from './rewards/total-reward.js';
import type { LoggedColumns, LoggedTexts, RolloutStep } from './rollout.js';
import { promptEnvironments } from './rows/environments.js';
import { leaveOutRepeats } from './rows/repeated-rows.js';
import type { StepRows } from './rows/step-rows.js';

export interface GatherStepOptions {
  readonly reasoning: ReasoningTags;
  /** Ids of the tags among the tokens. */
  readonly tagTokens: readonly [number, number] | undefined;
  readonly groupSize: number | undefined;
  /** Weights of the columns that make up the reward, as the user says. */
  readonly rewardColumns?: RewardColumns | undefined;
}

export interface StepOrigin {
  readonly format: RolloutFormat;
  readonly files: readonly string[];
  readonly step: number;
  readonly run: string;
  readonly runDirectory: string;
  /** The path says the step, and rows may say another. */
  readonly isNamed: boolean;
  readonly notes: readonly string[];
  /** Columns that make up the reward, as learned from the run's log. */
  readonly rewards?: RewardWeights | undefined;
}

/** @throws FileError if the rows cannot be split as the options say */
export function gatherStep(rows: StepRows, origin: StepOrigin, options: GatherStepOptions): LoggedColumns {
  const { format, files, step, run, runDirectory } = origin;
  const notes = [...format.notes, ...origin.notes];
  if (rows.isCut) notes.push('the last line is not complete: it is being written, or was cut, and is left out');
  if (origin.isNamed) noteOtherSteps(rows, step, notes);
  const repeats = leaveOutRepeats(rows, notes);
  rows.readTexts('prompt');
  const absent: Partial<Record<RolloutColumn, string>> = {};
  for (const name of COLUMN_NAMES) {
    if (name !== 'step' && name !== 'run' && !has(rows, name))
      absent[name] = format.absent[name] ?? `the log has no ${COLUMNS[name].words}`;
  }
  const groups = groupsOf(rows, files, options.groupSize, notes);
  if (groups === undefined) {
    absent.group ??= 'the log has no group id';
    absent.group += '; not every row has a prompt either: say how many rows a prompt has (--group-size)';
  } else delete absent.group;
  const texts = splitTexts(rows, options.reasoning);
  const lists = splitLists(rows, options);
  for (const name of ['reasoning', 'action'] as const) {
    if (texts[name] !== undefined) delete absent[name];
    else if (has(rows, 'output')) absent[name] = 'no response has a closing tag of its reasoning';
  }
  const tokens = rows.column<Int32Array>('tokens');
  const { reward, rewards } = rewardsOf(rows, origin, options.rewardColumns, absent, notes);
  return {
    ...gatherColumns(rows),
    format: format.name,
    files,
    step,
    run,
    runDirectory,
    rows: rows.rows,
    group: groups?.group,
    groupIds: groups?.ids ?? [],
    groupSource: groups?.source,
    reasoning: texts.reasoning,
    reasoningTokens: lists?.reasoning,
    action: texts.action,
    reward,
    rewards,
    logprobs: logprobsOf(rows, 'logprobs', tokens, absent),
    trainerLogprobs: logprobsOf(rows, 'trainerLogprobs', tokens, absent),
    truncated: truncatedOf(rows, texts.cut, lists?.cut),
    environment: has(rows, 'environment')
      ? promptEnvironments(rows.column<string>('environment') ?? [], groups, files[0] ?? '')
      : undefined,
    absent,
    notes,
    badRows: rows.bad,
    repeats,
  };
}

const NUMBERS: ReadonlySet<keyof RowValues> = new Set(['count', 'number', 'outcome', 'mean']);

/** Each column as its kind is held. */
function gatherColumns(rows: StepRows): StepColumns {
  const gathered = COLUMN_NAMES.map((name) => {
    const kind: keyof RowValues = COLUMNS[name].kind;
    const column = NUMBERS.has(kind) ? numbers(rows, name) : present<unknown>(rows, name);
    return [name, kind === 'flag' ? column && Uint8Array.from(column, Number) : column];
  });
  return Object.fromEntries(gathered) as StepColumns;
}

function has(rows: StepRows, name: RolloutColumn): boolean {
  return rows.column(name)?.some((value) => value !== undefined) ?? false;
}

function present<T>(rows: StepRows, name: RolloutColumn): readonly (T | undefined)[] | undefined {
  return has(rows, name) ? rows.column<T>(name) : undefined;
}

function numbers(rows: StepRows, name: RolloutColumn): Float64Array | undefined {
  const column = rows.column<number>(name);
  if (column === undefined || !has(rows, name)) return undefined;
  const found = new Float64Array(rows.rows);
  for (let row = 0; row < found.length; row++) found[row] = column[row] ?? Number.NaN;
  return found;
}

function noteOtherSteps(rows: StepRows, step: number, notes: string[]): void {
  const others = rows.column<number>('step')?.filter((said) => said !== undefined && said !== step).length ?? 0;
  if (others > 0) notes.push(`${counted(others, 'rows')} of step ${step}, as the path has it, say another step`);
}

/** If the log has no reasoning or action of its own, by the tags. */
function splitTexts(
  rows: StepRows,
  tags: ReasoningTags,
): { reasoning: LoggedTexts | undefined; action: Texts | undefined; cut: boolean[] | undefined } {
  const [outputs, ownReasoning] = (['output', 'reasoning'] as const).map((name) => rows.column<LoggedText>(name));
  const ownAction = rows.column<string>('action');
  const split = splitter(tags);
  const reasoning: (LoggedText | undefined)[] = [];
  const action: (string | undefined)[] = [];
  const cut: boolean[] = [];
  for (let row = 0; row < rows.rows; row++) {
    const output = outputs?.[row];
    const own = ownReasoning?.[row];
    const parts = own === undefined && output !== undefined ? split(output) : undefined;
    reasoning.push(own ?? parts?.reasoning);
    const said = ownAction?.[row];
    action.push(said === undefined ? parts?.action : actionIn(said));
    cut.push(parts?.isCut ?? false);
  }
  const there = <T>(column: (T | undefined)[]): (T | undefined)[] | undefined =>
    column.some((value) => value !== undefined) ? column : undefined;
  return { reasoning: there(reasoning), action: there(action), cut: outputs && cut };
}

function splitLists(
  rows: StepRows,
  { reasoning, tagTokens }: GatherStepOptions,
): { reasoning: TokenLists; cut: boolean[] } | undefined {
  const tokens = rows.column<Int32Array>('tokens');
  if (tokens === undefined) return undefined;
  const ids = reasoning === 'all' ? undefined : tagTokens;
  const split = tokens.map((list) => list && splitTokens(list, ids));
  return { reasoning: split.map((one) => one?.reasoning), cut: split.map((one) => one?.isCut ?? false) };
}

/** @returns undefined if neither the log nor the tags say it of any row */
function truncatedOf(
  rows: StepRows,
  text: boolean[] | undefined,
  tokens: boolean[] | undefined,
): Uint8Array | undefined {
  const said = rows.column<boolean>('truncated');
  const isSaid = has(rows, 'truncated');
  if (!isSaid && !text?.includes(true) && !tokens?.includes(true)) return undefined;
  return Uint8Array.from({ length: rows.rows }, (_, row) => (said?.[row] || text?.[row] || tokens?.[row] ? 1 : 0));
}

/** Log-probs that are not one a token are of something else. */
function logprobsOf(
  rows: StepRows,
  name: 'logprobs' | 'trainerLogprobs',
  tokens: readonly (Int32Array | undefined)[] | undefined,
  absent: Partial<Record<RolloutColumn, string>>,
): RolloutStep['logprobs'] {
  const found = present<Float64Array>(rows, name);
  if (found === undefined) return undefined;
  const odd = found.findIndex((list, row) => {
    const length = tokens?.[row]?.length;
    return list !== undefined && length !== undefined && length !== list.length;
  });
  if (odd < 0) return found;
  absent[name] = `row ${odd} has ${found[odd]?.length} log-probs for ${counted(tokens?.[odd]?.length ?? 0, 'tokens')}`;
  return undefined;
}

interface Rewards {
  readonly reward: RolloutStep['reward'];
  readonly rewards: RolloutStep['rewards'];
}

/** As the log has it; or of columns of numbers, as somebody says or its advantages tell. */
function rewardsOf(
  rows: StepRows,
  { format, files, rewards: learned }: StepOrigin,
  given: RewardColumns | undefined,
  absent: Partial<Record<RolloutColumn, string>>,
  notes: string[],
): Rewards {
  const columns = partsOf(rows);
  const [path = ''] = files;
  if (format.advantageField === undefined || columns === undefined) {
    if (given !== undefined) {
      const problem = `the reader ${format.name} has no columns of numbers to make a reward of (--reward-columns)`;
      throw new FileError({ path }, problem);
    }
    return { reward: numbers(rows, 'reward'), rewards: columns && Object.fromEntries(columns) };
  }
  const advantage = columns.get(format.advantageField);
  columns.delete(format.advantageField);
  const total = totalReward(columns, advantage, rows.column('prompt'), given, learned, path);
  const { reward, parts, note } = total;
  if (reward?.some((value) => !Number.isNaN(value))) {
    delete absent.reward;
    if (note !== undefined) notes.push(note);
    return { reward, rewards: parts };
  }
  absent.reward = (reward === undefined ? note : undefined) ?? 'no row of the step has a reward';
  return { reward: undefined, rewards: undefined };
}

function partsOf(rows: StepRows): Map<string, Float64Array> | undefined {
  const found = present<NonNullable<Rollout['rewards']>>(rows, 'rewards');
  if (found === undefined) return undefined;
  const columns = new Map<string, Float64Array>();
  for (const [row, parts] of found.entries()) {
    for (const name in parts) {
      let column = columns.get(name);
      if (column === undefined) {
        column = new Float64Array(found.length).fill(Number.NaN);
        columns.set(name, column);
      }
      column[row] = parts[name] ?? Number.NaN;
    }
  }
  return columns;
}
