// One step of a rollout log in, all that it says on its own out: text figures, and what rewards, actions and log-probs
// say.
import { createHash } from 'node:crypto';
import { FileError } from '../../checks/errors.js';
import { percent } from '../../checks/numbers.js';
import { type RowEnvironments, rowEnvironments } from '../../checks/row-environments.js';
import type { Engine } from '../../engine/engine.js';
import { placesInString, type RowReading } from '../../engine/operations/texts/row-readings.js';
import type { TextRows } from '../../engine/operations/texts/text-rows.js';
import { textOf } from '../../logs/rollouts/logged-text.js';
import type { LoggedColumns, LoggedTexts, RolloutStep, Texts } from '../../logs/rollouts/rollout.js';
import type { LoggedStep, ReadRollouts } from '../../logs/rollouts/rollout-logs.js';
import {
  sharesAtFirst,
  type TextMetrics,
  type TextStep,
  textMetrics,
  textMetricsWithout,
} from '../../metrics/text-metrics.js';
import { excerptsOf, joinedIds, READINGS, type StepExcerpts } from '../../monitor/prompts/excerpts.js';
import { type GroupName, promptsOfTexts, promptsWithout } from '../../monitor/prompts/prompt-measurement.js';
import { besideMetrics, type RowColumns } from './beside-metrics.js';
import { asFileError, type BadRow, type MeasureOptions, type StepMeasurement } from './step-measurement.js';

/** Of a step's lines that cannot be used so many are named, and the others counted. */
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
  firstRows: () => Promise<TextRows | undefined>,
  signal: AbortSignal,
): Promise<StepMeasurement> {
  const [{ path = '' } = {}] = logged.parts;
  if (step === undefined) throw errors[0] ?? new FileError({ path }, `step ${logged.step} has no rows`);
  return asFileError(path, signal, async () => {
    const { perPrompt, readings, ...texts } = await textsOf(engine, step, options, isWanted, firstRows, signal);
    const isJudged = options.profile === 'strict' && step.group !== undefined;
    const figures = { texts, figures: lengthsOf(step) };
    const beside = isJudged
      ? await besideMetrics(engine, columnsOf(step), figures, options, signal)
      : { notes: step.group === undefined ? [`no filter and no verdicts: ${step.absent.group}`] : [] };
    const notes = [
      ...step.notes,
      ...copyNotes(texts),
      ...groupNotes(step),
      ...(isAlone ? absentNotes(step) : []),
      ...beside.notes,
    ];
    const prompts = isWanted ? promptParts(step, perPrompt) : {};
    const excerpts = isWanted ? excerptsIn(step, readings) : undefined;
    const badRows = errors.length > 0 && { badRows: badRowsOf(errors, logged) };
    return { metrics: [], texts, ...prompts, ...(excerpts && { excerpts }), ...beside, notes, ...badRows };
  });
}

/** What the log says of each prompt, and what it calls them. */
function promptParts(
  { group, groupIds, groupSource }: LoggedColumns,
  perPrompt: TextMetrics['perPrompt'],
): Pick<StepMeasurement, 'prompts' | 'groupNames'> {
  if (group === undefined) return {};
  const names = groupIds.map(shortName);
  const prompts = perPrompt === undefined ? promptsWithout(names) : promptsOfTexts(perPrompt, shortName);
  return { prompts, groupNames: { names, inFilter: groupSource !== 'id' } };
}

function excerptsIn(step: LoggedColumns, readings: TextMetrics['readings']): StepExcerpts | undefined {
  const { group, groupIds, reasoning, reasoningTokens, reward } = step;
  if (group === undefined || (reasoning === undefined && reasoningTokens === undefined)) return undefined;
  const rows = firstTurns(step);
  const inString = (reading: RowReading): RowReading => {
    const text = reasoning?.[rows[reading.row] as number];
    if (reading.places === undefined || text === undefined || typeof text === 'string') return reading;
    return { ...reading, places: placesInString(textOf(text), reading.places) };
  };
  return excerptsOf(rows, readings?.map(inString), {
    group: (row) => shortName(groupIds[group[row] as number] as string),
    reasoning: (row) =>
      reasoningTokens === undefined ? textOf(reasoning?.[row] ?? '') : joinedIds(reasoningTokens[row]),
    prompt: (row) => step.prompt?.[row] ?? (step.promptTokens?.[row] && joinedIds(step.promptTokens[row])),
    reward: (row) => reward?.[row],
    number: (row) => step.row?.[row],
  });
}

const MOST_NAME = 80;

/** An id, or what a prompt says that has none: of a long one its beginning, and a digest that tells it from others. */
function shortName(id: string): string {
  if (id.length <= MOST_NAME) return id;
  return `${id.slice(0, MOST_NAME)}… ${createHash('sha256').update(id).digest('hex').slice(0, 8)}`;
}

/** The rows that text figures are about: one a sample, which of an episode of several turns is its first. */
export function textRowsOf(step: LoggedColumns, rows = firstTurns(step)): TextRows | undefined {
  const { group, groupIds, reasoning, reasoningTokens, prompt, promptTokens } = step;
  const texts = reasoningTokens ?? reasoning;
  if (texts === undefined || group === undefined) return undefined;
  const pick = <T>(column: readonly T[]): T[] => rows.map((row) => column[row] as T);
  const groups = rows.map((row) => groupIds[group[row] as number] as string);
  if (reasoningTokens !== undefined) {
    const tokens = pick(reasoningTokens).map((list) => list ?? new Int32Array(0));
    return { groups, tokens, ...(promptTokens && { promptTokens: pick(promptTokens) }) };
  }
  const written = pick(reasoning as LoggedTexts).map((text) => text ?? '');
  return { groups, texts: written, ...(prompt && { prompts: pick(prompt) }) };
}

/** A step as `textMetrics` takes it; undefined where it has no texts, or nothing tells its groups. */
export function textStepOf(step: RolloutStep): TextStep | undefined {
  const rows = firstTurns(step);
  const texts = textRowsOf(step, rows);
  return texts && { ...texts, ...besideTexts(step, rows), environments: environmentsOf(step, rows) };
}

/** Undefined where the log names none. */
function environmentsOf({ environment }: LoggedColumns, rows: readonly number[]): RowEnvironments | undefined {
  return environment && rowEnvironments(rows.map((row) => environment[row]));
}

function besideTexts({ truncated, logprobs, entropy }: LoggedColumns, rows: readonly number[]) {
  return {
    ...(truncated && { truncated: Uint8Array.from(rows, (row) => truncated[row] as number) }),
    ...(logprobs && { logprobs: rows.map((row) => logprobs[row]) }),
    ...(entropy && { entropies: Float64Array.from(rows, (row) => entropy[row] as number) }),
  };
}

/** Of every episode the row of its lowest turn; where turns are of no episode, the rows of the lowest turn. */
function firstTurns({ rows, group, episode, turn }: LoggedColumns): number[] {
  const all = Array.from({ length: rows }, (_, row) => row);
  if (turn === undefined) return all;
  const first = new Map<string, number>();
  for (const row of all) {
    const key = `${group?.[row]}\n${episode?.[row] ?? ''}`;
    const now = turn[row] as number;
    const least = first.get(key);
    if (!Number.isNaN(now) && (least === undefined || now < least)) first.set(key, now);
  }
  // A row without a turn is a response by itself.
  return all.filter((row) => {
    const now = turn[row] as number;
    return Number.isNaN(now) || now === first.get(`${group?.[row]}\n${episode?.[row] ?? ''}`);
  });
}

async function textsOf(
  engine: Engine,
  step: LoggedColumns,
  { permutations, seed }: MeasureOptions,
  perPrompt: boolean,
  firstRows: () => Promise<TextRows | undefined>,
  signal: AbortSignal,
): Promise<TextMetrics> {
  const rows = firstTurns(step);
  const texts = textRowsOf(step, rows);
  const measured =
    texts === undefined
      ? textMetricsWithout(step.absent.group ?? step.absent.output ?? 'the log has no texts', {
          ...besideTexts(step, rows),
          total: rows.length,
          ...(step.length && { lengths: rows.map((row) => step.length?.[row] as number) }),
        })
      : await textMetrics(
          engine,
          { ...texts, ...besideTexts(step, rows), environments: environmentsOf(step, rows) },
          { permutations, seed, perPrompt, ...(perPrompt && { readings: READINGS }), signal },
        );
  const absent = { ...measured.absent, ...reasonsOf(step, measured) };
  const first = measured.phrases.length > 0 ? await firstRows() : undefined;
  // Phrases of words are not to be found among ids.
  if (first === undefined || (first.tokens === undefined) !== (texts?.tokens === undefined))
    return { ...measured, absent };
  return { ...measured, absent, phrases: await sharesAtFirst(engine, measured.phrases, first, signal) };
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
function columnsOf(step: LoggedColumns): RowColumns {
  const { group, groupIds, groupSource, reward, outcome, action, episode, turn } = step;
  return {
    step: step.step,
    group: group as Int32Array,
    nameOf: groupSource === 'id' ? (at) => nameOf(groupIds[at] as string) : undefined,
    ...(isFull(episode) && { episode: numbered(episode) }),
    ...(isFull(episode) && turn?.every(Number.isInteger) && { turn: Int32Array.from(turn) }),
    rewards: reward,
    outcome,
    // A row without an action did nothing that can be read, which is an action of its own.
    ...(action && { actions: numbered(action) }),
  };
}

/** As numbers where no digit is lost. */
function nameOf(id: string): GroupName {
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

/** Nothing in texts tells copies from a policy that says the same each time. */
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
export function badRowsOf(errors: readonly FileError[], { parts }: LoggedStep): BadRow[] {
  const named = errors.slice(0, MOST_NAMED).map(({ path, offset, message }): BadRow => {
    const where = offset === undefined ? {} : { offset };
    const prefix = new FileError({ path, ...where }, '').message;
    const file = parts.find((part) => part.path === path)?.file ?? path;
    return { file, problem: message.startsWith(prefix) ? message.slice(prefix.length) : message, ...where };
  });
  const more = errors.length - named.length;
  const [{ file } = { file: '' }] = named;
  return more > 0 ? [...named, { file, problem: `and ${more} more problems of this step` }] : named;
}
