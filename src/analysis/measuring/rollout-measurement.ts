// Measures one step of a rollout log by itself: text figures, and figures of rewards, actions and log-probs.
import { createHash } from 'node:crypto';
import { FileError } from '../../checks/errors.js';
import { percent } from '../../checks/numbers.js';
import { type RowEnvironments, rowEnvironments } from '../../checks/row-environments.js';
import type { Engine } from '../../engine/engine.js';
import type { TextRows } from '../../engine/operations/texts/text-rows.js';
import { columnsBeside, type Texts } from '../../logs/rollouts/columns.js';
import type { LoggedText } from '../../logs/rollouts/logged-text.js';
import type { LoggedColumns, RolloutStep } from '../../logs/rollouts/rollout.js';
import type { LoggedStep, ReadRollouts } from '../../logs/rollouts/rollout-logs.js';
import type { RolloutFigures } from '../../metrics/figures/log-columns.js';
import { type TextMetrics, type TextStep, textMetricsWithout } from '../../metrics/text-metrics.js';
import { firstTurns } from '../../step/first-turns.js';
import { measureStep } from '../../step/measure-step.js';
import { type FirstRows, type MeasuredTexts, measureTexts, pickRows, writtenRows } from '../../step/measured-texts.js';
import type { RowTexts } from '../../step/prompts/excerpts.js';
import type { GroupName } from '../../step/prompts/prompt-measurement.js';
import type { StepInput, StepRows } from '../../step/step-input.js';
import type { BadRow, StepMeasurement } from '../../step/step-measurement.js';
import type { MeasureOptions } from './measure-options.js';
import { asFileError, plainMeasurement, rulesOf } from './measure-step-data.js';

/** At most this many unusable lines of a step are listed; the rest are counted. */
const MOST_NAMED = 50;

/**
 * @param isAlone whether there is no step file beside the log, so that what the log lacks is missing
 * @param isWanted whether somebody reads what there is to say of each prompt
 * @param firstRows of the run's first step: what the phrases of this one covered there
 * @throws {FileError} naming what is wrong where no row can be used; `signal.reason` when aborted
 */
export async function measureRollouts(
  engine: Engine,
  logged: LoggedStep,
  { step, errors }: ReadRollouts,
  options: MeasureOptions,
  isAlone: boolean,
  isWanted: boolean,
  firstRows: FirstRows,
  signal: AbortSignal,
): Promise<StepMeasurement> {
  const [{ path = '' } = {}] = logged.parts;
  if (step === undefined) throw errors[0] ?? new FileError({ path }, `step ${logged.step} has no rows`);
  return asFileError(path, signal, async () => {
    const input = inputOfLog(step, await textsOf(engine, step, options, isWanted, signal), options, isAlone);
    const work = { perPrompt: isWanted, firstRows, signal };
    const measured = await measureStep(async () => engine, input, rulesOf(options), work);
    const nameOf = ({ groupIds, groupSource }: LoggedColumns) =>
      groupSource === 'id' ? (at: number | bigint) => idOf(groupIds[Number(at)] as string) : undefined;
    const badRows = errors.length > 0 && { badRows: badRowsOf(errors) };
    return { ...plainMeasurement(measured, nameOf(step)), ...badRows };
  });
}

/** The step as its log has it. */
function inputOfLog(
  step: LoggedColumns,
  texts: MeasuredTexts,
  { profile }: MeasureOptions,
  isAlone: boolean,
): StepInput {
  const { group, groupIds, groupSource } = step;
  const names = groupIds.map(shortName);
  return {
    step: step.step,
    texts,
    rows: profile === 'strict' && group !== undefined ? rowsOf(step, group) : undefined,
    prompts: group && { ids: names, names: { names, inFilter: groupSource !== 'id' }, nameOf: shortName },
    notes: [
      ...step.notes,
      ...copyNotes(texts.figures),
      ...groupNotes(step),
      ...(isAlone ? absentNotes(step) : []),
      ...(group === undefined ? [`no filter and no verdicts: ${step.absent.group}`] : []),
    ],
  };
}

const MOST_NAME = 80;

/** An id, or the text of a prompt without one: of a long text its beginning, and a digest to distinguish it. */
function shortName(id: string): string {
  if (id.length <= MOST_NAME) return id;
  return `${id.slice(0, MOST_NAME)}… ${createHash('sha256').update(id).digest('hex').slice(0, 8)}`;
}

/** One a sample, which of an episode of several turns is its first. */
function sampledRows({ rows, group: groups, episode: episodes, turn: turns }: LoggedColumns): number[] {
  return firstTurns({ rows, groups, episodes, turns });
}

/** The rows that text figures are about. */
export function textRowsOf(step: LoggedColumns, rows = sampledRows(step)): TextRows | undefined {
  const { group, groupIds, reasoning, reasoningTokens: tokens, prompt: prompts, promptTokens } = step;
  if (group === undefined) return undefined;
  const groups = Array.from(group, (at) => groupIds[at] as string);
  if (tokens !== undefined) {
    const picked = pickRows({ groups, tokens: tokens as readonly Int32Array[], promptTokens }, rows);
    return { ...picked, tokens: picked.tokens.map((list) => list ?? new Int32Array(0)) };
  }
  if (reasoning === undefined) return undefined;
  const picked = pickRows({ groups, texts: reasoning as readonly LoggedText[], prompts }, rows);
  return { ...picked, texts: picked.texts.map((text) => text ?? '') };
}

/** A step as `textMetrics` takes it; undefined if it has no texts, or nothing tells its groups. */
export function textStepOf(step: RolloutStep): TextStep | undefined {
  const rows = sampledRows(step);
  const texts = textRowsOf(step, rows);
  return (
    texts && {
      ...texts,
      ...pickRows<RolloutFigures>(columnsBeside(step), rows),
      environments: environmentsOf(step, rows),
    }
  );
}

/** Undefined if the log names none. */
function environmentsOf({ environment }: LoggedColumns, rows: readonly number[]): RowEnvironments | undefined {
  return environment && rowEnvironments(rows.map((row) => environment[row]));
}

async function textsOf(
  engine: Engine,
  step: LoggedColumns,
  { permutations, seed }: MeasureOptions,
  perPrompt: boolean,
  signal: AbortSignal,
): Promise<MeasuredTexts> {
  const rows = sampledRows(step);
  const texts = textRowsOf(step, rows);
  const beside = pickRows<RolloutFigures>(columnsBeside(step), rows);
  const options = { permutations, seed, perPrompt, placesBytes: true };
  const measured =
    texts === undefined
      ? { figures: withoutTexts(step, beside, rows), rows: undefined }
      : await measureTexts(
          engine,
          { ...texts, ...beside, environments: environmentsOf(step, rows) },
          rows,
          writtenOf(step),
          options,
          signal,
        );
  const { figures } = measured;
  return { ...measured, figures: { ...figures, absent: { ...figures.absent, ...reasonsOf(step, figures) } } };
}

function withoutTexts({ absent, length }: LoggedColumns, beside: RolloutFigures, rows: readonly number[]): TextMetrics {
  const lengths = length && { lengths: rows.map((row) => length[row] as number) };
  const reason = absent.group ?? absent.output ?? 'the log has no texts';
  return textMetricsWithout(reason, { ...beside, total: rows.length, ...lengths });
}

function writtenOf(step: LoggedColumns): RowTexts {
  const { group, groupIds, reasoning: texts, reasoningTokens: tokens, prompt: prompts, promptTokens, reward } = step;
  return writtenRows(
    { texts, tokens, prompts, promptTokens },
    {
      group: (row) => shortName(groupIds[group?.[row] as number] as string),
      reward: (row) => reward?.[row],
      number: (row) => step.row?.[row],
    },
  );
}

/** What the log has not, in the log's words. */
function reasonsOf({ absent }: LoggedColumns, { values }: TextMetrics): Record<string, string> {
  const keys = {
    conditional_entropy_est: absent.logprobs,
    conditional_entropy_seq_est: absent.logprobs,
    token_entropy: absent.entropy,
    truncated_share: absent.truncated,
  };
  const known = Object.entries(keys).filter(([key, reason]) => reason !== undefined && !(key in values));
  return Object.fromEntries(known) as Record<string, string>;
}

/** Rewards, outcomes and actions as the filter and the judge take them. */
function rowsOf(step: LoggedColumns, groups: Int32Array): StepRows {
  const { reward: rewards, outcome: outcomes, action, episode, turn } = step;
  return {
    groups,
    ...(isFull(episode) && { episodes: numbered(episode) }),
    ...(isFull(episode) && turn?.every(Number.isInteger) && { turns: Int32Array.from(turn) }),
    rewards,
    outcomes,
    // A row without an action did nothing that can be read, which is an action of its own.
    ...(action && { actions: numbered(action) }),
    figures: lengthsOf(step),
  };
}

/** As numbers where no digit is lost. */
function idOf(id: string): GroupName {
  if (!/^-?(0|[1-9]\d{0,18})$/.test(id)) return id;
  const number = Number(id);
  return Number.isSafeInteger(number) ? number : BigInt(id);
}

function numbered(column: Texts): Int32Array {
  const known = new Map<string | undefined, number>();
  return Int32Array.from(column, (value) => {
    const number = known.get(value) ?? known.size;
    known.set(value, number);
    return number;
  });
}

function isFull(column: Texts | undefined): column is readonly string[] {
  return column?.every((value) => value !== undefined) ?? false;
}

/** To be held against success: how long responses are by the log's own count. */
function lengthsOf({ length }: LoggedColumns): Record<string, number> | undefined {
  const known = Array.from(length ?? []).filter((tokens) => Number.isFinite(tokens));
  if (known.length === 0) return undefined;
  return { response_tokens: known.reduce((sum, tokens) => sum + tokens, 0) / known.length };
}

function groupNotes({ groupSource, turn, episode }: LoggedColumns): string[] {
  return [
    ...(groupSource === 'prompt' ? ['groups are told by equal prompts: the log has no group id of every row'] : []),
    ...(groupSource === 'run length' ? ['groups are runs of rows, as long as was said (--group-size)'] : []),
    ...(turn !== undefined && episode === undefined
      ? ['rows have turns but no episode: text figures are of the rows of the first turn']
      : []),
  ];
}

/** Of rows that another row of their prompt equals: more are mostly copies. */
const MOST_DUPLICATES = 0.9;

/** Texts cannot distinguish copies from a policy that says the same each time. */
function copyNotes({ values }: Pick<TextMetrics, 'values'>): string[] {
  const share = values.duplicate_share ?? 0;
  if (!(share > MOST_DUPLICATES)) return [];
  return [
    `${percent(share)} of rows say what another row of their prompt says: if they were logged twice, or sampled ` +
      'without temperature, they are no independent draws, and the bound is too high',
  ];
}

/** What has no key among the figures. */
function absentNotes({ reward, action, absent }: LoggedColumns): string[] {
  return [
    ...(reward === undefined ? [`no filter: ${absent.reward ?? 'the log has no reward'}`] : []),
    ...(action === undefined ? [`no I(X;A): ${absent.action ?? 'the log has no action'}`] : []),
  ];
}

/** @param errors at least one */
export function badRowsOf(errors: readonly FileError[]): BadRow[] {
  const named = errors
    .slice(0, MOST_NAMED)
    .map(({ path, offset, problem }): BadRow => ({ file: path, problem, ...(offset !== undefined && { offset }) }));
  const more = errors.length - named.length;
  const [{ file } = { file: '' }] = named;
  return more > 0 ? [...named, { file, problem: `and ${more} more problems of this step` }] : named;
}
