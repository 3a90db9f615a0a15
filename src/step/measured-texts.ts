// Measures the text figures of a step's rows, and picks some of its rollouts to read.
import type { Engine } from '../engine/engine.js';
import { placesInString, type RowReading } from '../engine/operations/texts/row-readings.js';
import type { TextPrompts } from '../engine/operations/texts/text-prompts.js';
import type { Text, TextRows } from '../engine/operations/texts/text-rows.js';
import type { Integers } from '../engine/tensor/tensor.js';
import { textOf } from '../logs/rollouts/logged-text.js';
import { sharesAtFirst, type TextMetrics, type TextStep, textMetrics } from '../metrics/text-metrics.js';
import { excerptsOf, joinedIds, READINGS, type RowTexts, type StepExcerpts } from './prompts/excerpts.js';

export interface MeasuredTexts {
  readonly figures: TextMetrics;
  /** Where it was asked for, and there are figures. */
  readonly perPrompt?: TextPrompts | undefined;
  /** Where it was asked for. */
  readonly excerpts?: StepExcerpts | undefined;
  /** What they were measured of; undefined if there are no texts. */
  readonly rows: TextRows | undefined;
}

/** The texts of the run's first step that had figures; undefined if there is none. */
export type FirstRows = () => Promise<TextRows | undefined>;

/** The same columns of some rows only. */
export function pickRows<Columns extends Omit<TextStep, 'environments'>>(
  columns: Columns,
  rows: readonly number[],
): Columns {
  const picked = Object.entries(columns).map(([name, column]: [string, ArrayLike<unknown> | undefined]) => [
    name,
    column && rows.map((row) => column[row]),
  ]);
  return Object.fromEntries(picked) as Columns;
}

/**
 * @param step the rows that are independent draws given their prompt
 * @param kept their numbers in the step
 * @param written what the step's rows say
 * @param perPrompt whether somebody reads what there is to say of each prompt
 */
export async function measureTexts(
  engine: Engine,
  step: TextStep,
  kept: readonly number[],
  written: RowTexts,
  { perPrompt: isWanted, placesBytes, ...options }: TextOptions,
  signal: AbortSignal | undefined,
): Promise<MeasuredTexts> {
  const wanted = { perPrompt: isWanted, readings: isWanted ? READINGS : undefined };
  const { perPrompt, readings, ...figures } = await textMetrics(engine, step, { ...options, ...wanted, signal });
  /** Places in bytes are others in a string. */
  const inString = (reading: RowReading): RowReading => {
    if (reading.places === undefined || typeof step.texts?.[reading.row] === 'string') return reading;
    if (!placesBytes) return { ...reading, nats: new Float64Array() };
    return { ...reading, places: placesInString(written.reasoning(kept[reading.row] as number), reading.places) };
  };
  const excerpts = isWanted ? excerptsOf(kept, readings?.map(inString), written) : undefined;
  return { figures, perPrompt, excerpts, rows: step };
}

interface TextOptions {
  readonly permutations?: number | undefined;
  readonly seed: number;
  readonly perPrompt: boolean;
  /** Whether texts that came as bytes are shown with what each of their words is worth. */
  readonly placesBytes: boolean;
}

/** What rows say, one entry a row in each column. */
interface WrittenColumns {
  readonly texts?: readonly (Text | undefined)[] | undefined;
  readonly tokens?: readonly (Integers | undefined)[] | undefined;
  readonly prompts?: readonly (Text | undefined | null)[] | undefined;
  readonly promptTokens?: readonly (Integers | undefined | null)[] | undefined;
}

/** Ids of tokens represent texts that are not known. */
export function writtenRows(
  { texts, tokens, prompts, promptTokens }: WrittenColumns,
  others: Pick<RowTexts, 'group' | 'reward' | 'number'>,
): RowTexts {
  return {
    ...others,
    reasoning: (row) => (tokens === undefined ? textOf(texts?.[row] ?? '') : joinedIds(tokens[row])),
    prompt: (row) => {
      const [prompt, ids] = [prompts?.[row], promptTokens?.[row]];
      return typeof prompt === 'string' || prompt instanceof Uint8Array
        ? textOf(prompt)
        : ids
          ? joinedIds(ids)
          : undefined;
    },
  };
}

/** The figures with what their phrases covered of the run's first step. */
export async function besideFirst(
  engine: () => Promise<Engine>,
  { figures, rows }: MeasuredTexts,
  firstRows: FirstRows,
  signal: AbortSignal | undefined,
): Promise<TextMetrics> {
  if (figures.phrases.length === 0) return figures;
  const first = await firstRows();
  // Phrases of words are not to be found among ids.
  if (first === undefined || (first.tokens === undefined) !== (rows?.tokens === undefined)) return figures;
  const phrases = await sharesAtFirst(await engine(), figures.phrases, first, signal);
  const isKnown = phrases.every(({ shareAtFirstStep }) => Number.isFinite(shareAtFirstStep));
  return isKnown ? { ...figures, phrases } : figures;
}
