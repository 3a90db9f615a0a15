// The rows of one step, from however many files -> its columns: groups told, repeats left out, reasoning split from
// what follows it.
import { counted } from '../../checks/words.js';
import type { RolloutFormat } from './format.js';
import { groupsOf } from './groups.js';
import { giveBack } from './json-lines/line-blocks.js';
import { bufferOver, isSameText, type LoggedText } from './logged-text.js';
import { actionIn, type ReasoningTags, splitTokens, splitter } from './reasoning.js';
import {
  type LoggedColumns,
  type LoggedTexts,
  ROLLOUT_COLUMNS,
  type Rollout,
  type RolloutColumn,
  type RolloutStep,
  type Texts,
  type TokenLists,
} from './rollout.js';
import type { BatchTexts, RowBatch } from './row-batch.js';

export interface GatherStepOptions {
  readonly reasoning: ReasoningTags;
  /** Ids of the tags among the tokens. */
  readonly tagTokens: readonly [number, number] | undefined;
  readonly groupSize: number | undefined;
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
}

/** Rows as they come, in the order of files and lines. */
export class StepRows {
  rows = 0;
  bad = 0;
  isCut = false;
  readonly #columns = new Map<string, unknown[]>();
  readonly #memory: ArrayBuffer[] = [];

  /** @param firstLine number of the batch's first line in its file */
  add({ rows, columns, texts, bad, cut }: RowBatch, firstLine: number): void {
    if (texts !== undefined) this.#memory.push(texts.memory);
    for (const [name, values] of Object.entries(columns)) {
      if (name === 'line') {
        // Of formats in which a line is a group.
        this.#append(
          'group',
          values.map((line) => String(firstLine + (line as number) + 1)),
        );
      } else this.#append(name, values);
    }
    for (const [name, places] of Object.entries(texts?.places ?? {})) {
      const column = this.#append(name, []);
      const { memory } = texts as BatchTexts;
      while (column.length < this.rows + rows) column.push(undefined);
      for (let row = 0; row < rows; row++) {
        const begin = places[2 * row] as number;
        if (begin < 0) continue;
        // Undefined where the batch has a string for it.
        column[this.rows + row] = new Uint8Array(memory, begin, (places[2 * row + 1] as number) - begin);
      }
    }
    this.rows += rows;
    this.bad += bad;
    this.isCut ||= cut;
  }

  column<T>(name: RolloutColumn): (T | undefined)[] | undefined {
    const column = this.#columns.get(name) as (T | undefined)[] | undefined;
    while (column !== undefined && column.length < this.rows) column.push(undefined);
    return column;
  }

  /** Makes strings of a column's texts. Rows of a prompt mostly stand together: theirs are one string. */
  readTexts(name: RolloutColumn): void {
    const column = this.#columns.get(name) as (LoggedText | undefined)[] | undefined;
    if (column === undefined) return;
    let last: Buffer | undefined;
    let text = '';
    for (let row = 0; row < column.length; row++) {
      const logged = column[row];
      if (logged === undefined || typeof logged === 'string') continue;
      const bytes = bufferOver(logged);
      if (last === undefined || !last.equals(bytes)) text = bytes.toString('utf8');
      last = bytes;
      column[row] = text;
    }
  }

  /** Leaves out all rows but these. */
  keep(rows: readonly number[]): void {
    for (const name of this.#columns.keys()) {
      const column = this.column(name as RolloutColumn) as unknown[];
      this.#columns.set(
        name,
        rows.map((row) => column[row]),
      );
    }
    this.rows = rows.length;
  }

  /** Nobody reads the texts any more: their memory serves others. */
  release(): void {
    for (const memory of this.#memory.splice(0)) giveBack(memory);
  }

  #append(name: string, values: readonly unknown[]): unknown[] {
    const column = this.#columns.get(name) ?? [];
    this.#columns.set(name, column);
    while (column.length < this.rows) column.push(undefined);
    for (const value of values) column.push(value);
    return column;
  }
}

/** @throws FileError where the rows cannot be split as the options say */
export function gatherStep(rows: StepRows, origin: StepOrigin, options: GatherStepOptions): LoggedColumns {
  const { format, files, step, run, runDirectory } = origin;
  const notes = [...format.notes, ...origin.notes];
  if (rows.isCut) notes.push('the last line is not complete: it is being written, or was cut, and is left out');
  if (origin.isNamed) noteOtherSteps(rows, step, notes);
  const repeats = leaveOutRepeats(rows, notes);
  rows.readTexts('prompt');
  const absent: Partial<Record<RolloutColumn, string>> = {};
  for (const [name, what] of Object.entries(ROLLOUT_COLUMNS) as [RolloutColumn, string][]) {
    if (name !== 'step' && name !== 'run' && !has(rows, name))
      absent[name] = format.absent[name] ?? `the log has no ${what}`;
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
  return {
    format: format.name,
    files,
    step,
    run,
    runDirectory,
    rows: rows.rows,
    row: numbers(rows, 'row'),
    group: groups?.group,
    groupIds: groups?.ids ?? [],
    groupSource: groups?.source,
    prompt: present(rows, 'prompt'),
    promptTokens: present(rows, 'promptTokens'),
    output: present(rows, 'output'),
    tokens: present(rows, 'tokens'),
    reasoning: texts.reasoning,
    reasoningTokens: lists?.reasoning,
    action: texts.action,
    reward: numbers(rows, 'reward'),
    rewards: partsOf(rows),
    outcome: numbers(rows, 'outcome'),
    logprobs: logprobsOf(rows, tokens, absent),
    entropy: numbers(rows, 'entropy'),
    length: numbers(rows, 'length'),
    truncated: truncatedOf(rows, texts.cut, lists?.cut),
    sample: present(rows, 'sample'),
    episode: present(rows, 'episode'),
    turn: numbers(rows, 'turn'),
    absent,
    notes,
    badRows: rows.bad,
    repeats,
  };
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

/** A trainer that is taken back to a checkpoint logs samples again. */
function leaveOutRepeats(rows: StepRows, notes: string[]): number {
  const samples = rows.column<string>('sample');
  if (samples === undefined) return 0;
  const [turns, outputs, tokens] = [
    rows.column<number>('turn'),
    rows.column<LoggedText>('output'),
    rows.column<Int32Array>('tokens'),
  ];
  const seen = new Map<string, number[]>();
  const kept: number[] = [];
  let others = 0;
  for (let row = 0; row < rows.rows; row++) {
    const sample = samples[row];
    if (sample !== undefined) {
      const key = `${turns?.[row]}\n${sample}`;
      const before = seen.get(key);
      const isRepeat = before?.some(
        (one) => isSameText(outputs?.[one], outputs?.[row]) && sameTokens(tokens?.[one], tokens?.[row]),
      );
      if (isRepeat) continue;
      if (before === undefined) seen.set(key, [row]);
      else {
        before.push(row);
        others++;
      }
    }
    kept.push(row);
  }
  const repeats = rows.rows - kept.length;
  if (repeats > 0) {
    rows.keep(kept);
    notes.push(`${counted(repeats, 'rows')} repeat a sample that was logged before: each is counted once`);
  }
  if (others > 0) notes.push(`${counted(others, 'rows')} have a sample id that another row has, with another response`);
  return repeats;
}

function sameTokens(one: Int32Array | undefined, other: Int32Array | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return one.length === other.length && one.every((token, at) => token === other[at]);
}

/** Where the log has no reasoning or action of its own, by the tags. */
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

/** @returns undefined where neither the log nor the tags say it of any row */
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
  tokens: readonly (Int32Array | undefined)[] | undefined,
  absent: Partial<Record<RolloutColumn, string>>,
): RolloutStep['logprobs'] {
  const found = present<Float64Array>(rows, 'logprobs');
  if (found === undefined) return undefined;
  const odd = found.findIndex((list, row) => {
    const length = tokens?.[row]?.length;
    return list !== undefined && length !== undefined && length !== list.length;
  });
  if (odd < 0) return found;
  absent.logprobs = `row ${odd} has ${found[odd]?.length} log-probs for ${counted(tokens?.[odd]?.length ?? 0, 'tokens')}`;
  return undefined;
}

function partsOf(rows: StepRows): RolloutStep['rewards'] {
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
  return Object.fromEntries(columns);
}
