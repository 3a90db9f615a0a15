// engine.textFigures and engine.phraseShares: options, checks, native calls, results.
import type { OperationOptions } from '../../../checks/operation-options.js';
import { checkOptions, is, OPERATION, type OptionTable } from '../../../checks/options.js';
import type { EngineCore } from '../../engine-core.js';
import type { NativeResults, NativeTextFigures } from '../../native.js';
import type { Integers } from '../../tensor/tensor.js';
import { type RowReading, rowReadingsFrom } from './row-readings.js';
import { type TextPrompts, textPromptsFrom } from './text-prompts.js';
import {
  type PackedRows,
  phraseArguments,
  type Text,
  TextMemory,
  type TextRows,
  textRowsArguments,
} from './text-rows.js';

/** Options of `engine.textFigures`. */
export interface TextFiguresOptions extends OperationOptions {
  /** Label permutations for the p-value; 0 for none. */
  permutations: number;
  seed: number;
  /** Also gives what there is of each prompt. Default false. */
  prompts?: boolean | undefined;
  /**
   * Also reads `rows` rows token by token, half of them the most generic and half the most specific ones, and `tokens`
   * tokens of each. Default none.
   */
  readings?: ReadingOptions | undefined;
}

/** How much of a step is read token by token, at most. */
export interface ReadingOptions {
  rows: number;
  /** Tokens that are read of each row, from its first on. */
  tokens: number;
}

/** A run of tokens; each of its 4-grams is in the texts of at least max(3, ⌈P/2⌉) of the P prompts. */
export interface TemplatePhrase {
  /** Its tokens (words in lower case, or ids in decimal), joined by spaces. */
  readonly text: string;
  /** Its token ids, where the step has ids. */
  readonly ids?: readonly number[];
  /** How many tokens it has. */
  readonly tokens: number;
  /** Prompts that hold the whole phrase in some row. */
  readonly prompts: number;
  /** Mean over used rows of the share of a row's tokens that lie in it. */
  readonly share: number;
}

/** Why a step has no text figures. */
export type TextProblem = 'too_few_rows' | 'too_few_prompts' | 'prompts_differ';
const PROBLEMS: readonly (TextProblem | null)[] = [null, 'too_few_rows', 'too_few_prompts', 'prompts_differ'];

/** docs/reference/text-figures.md. Log-prob-like figures in nats; NaN if a figure cannot be given. */
export interface TextFigures {
  /** Not null: only the lengths below are given. */
  readonly problem: TextProblem | null;
  readonly rowsUsed: number;
  readonly promptsUsed: number;
  /** No prompt's rows train: only the prompts' own texts distinguish prompts. */
  readonly byPrompts: boolean;
  readonly promptsKnown: boolean;
  readonly miBound: number;
  readonly miBoundError: number;
  /** 95%, Student's t with P − 1 degrees of freedom. */
  readonly miBoundLow: number;
  readonly miBoundHigh: number;
  readonly miBoundSaturated: boolean;
  readonly specificity: number;
  readonly halfSplitStatistic: number;
  readonly pValue: number;
  readonly templateShare: number;
  readonly siblingNovelty: number;
  readonly repetition: number;
  readonly duplicateShare: number;
  readonly duplicateAcrossShare: number;
  /** Rows of the step, repeated samples counted once. */
  readonly rows: number;
  readonly emptyRows: number;
  readonly meanTokens: number;
  readonly leastTokens: number;
  readonly mostTokens: number;
  /** The own prompt among the best 1, 2, 4, 8; NaN for k of P or more. */
  readonly retrieval: readonly [number, number, number, number];
  /** At most ten: by the prompts that hold the whole phrase, then by the tokens it covers, then by text. */
  readonly phrases: readonly TemplatePhrase[];
  /** Only if the option `prompts` asked for it, and `problem` is null. */
  readonly prompts?: TextPrompts;
  /** Rising by `specificity`. Only if the option `readings` asked for it, and `problem` is null. */
  readonly readings?: readonly RowReading[];
}

const TEXT_OPTIONS: OptionTable<TextFiguresOptions> = {
  permutations: is.needed(is.integer(0)),
  seed: is.needed(is.integer(0)),
  prompts: is.flag,
  readings: (readings, argument) => checkOptions(readings as object, READING_OPTIONS, argument),
  ...OPERATION,
};

const READING_OPTIONS: OptionTable<ReadingOptions> = {
  rows: is.needed(is.integer(1)),
  tokens: is.needed(is.integer(1)),
};

/** In the order of native/node/jobs/text_figures.cpp. */
function textFiguresFrom(
  { numbers, phrases, prompts, readings }: NativeTextFigures,
  rows: TextRows,
  { kept, groupIds }: PackedRows,
): TextFigures {
  let at = 0;
  const next = (): number => numbers[at++] as number;
  const figures = {
    problem: PROBLEMS[next()] as TextProblem | null,
    rowsUsed: next(),
    promptsUsed: next(),
    byPrompts: next() === 1,
    promptsKnown: next() === 1,
    miBound: next(),
    miBoundError: next(),
    miBoundLow: next(),
    miBoundHigh: next(),
    miBoundSaturated: next() === 1,
    specificity: next(),
    halfSplitStatistic: next(),
    pValue: next(),
    templateShare: next(),
    siblingNovelty: next(),
    repetition: next(),
    duplicateShare: next(),
    duplicateAcrossShare: next(),
    rows: kept.length,
    emptyRows: next(),
    meanTokens: next(),
    leastTokens: next(),
    mostTokens: next(),
    retrieval: [next(), next(), next(), next()] as const,
    phrases: phrases.map(({ ids, ...phrase }) => (ids === undefined ? phrase : { ...phrase, ids: Array.from(ids) })),
  };
  if (figures.problem !== null) return figures;
  return {
    ...figures,
    ...(prompts && { prompts: textPromptsFrom(prompts, groupIds) }),
    ...(readings && { readings: rowReadingsFrom(readings, rows, kept) }),
  };
}

/** Engine.textFigures() */
export async function textFigures(
  engine: EngineCore,
  rows: TextRows,
  options: TextFiguresOptions,
): Promise<TextFigures> {
  engine.begin('textFigures', options, TEXT_OPTIONS);
  const { permutations, seed, prompts = false, readings } = options;
  const memory = new TextMemory();
  const packed = textRowsArguments(rows, memory);
  const wanted = [permutations, seed, prompts, readings?.rows ?? 0, readings?.tokens ?? 0] as const;
  return engine.jobs
    .run<NativeResults['textFigures'], TextFigures>(
      'textFigures',
      options,
      (settle) => engine.native.textFigures(settle, ...packed.arguments, ...wanted),
      (native) => textFiguresFrom(native, rows, packed),
    )
    .finally(() => memory.release());
}

/** Engine.phraseShares() */
export async function phraseShares(
  engine: EngineCore,
  rows: TextRows,
  phrases: readonly (Text | Integers)[],
  options: OperationOptions = {},
): Promise<Float64Array> {
  engine.begin('phraseShares', options);
  const memory = new TextMemory();
  const { arguments: given } = textRowsArguments(rows, memory);
  const wanted = phraseArguments(phrases, rows, memory);
  return engine.jobs
    .run<NativeResults['phraseShares'], Float64Array>(
      'phraseShares',
      options,
      (settle) => engine.native.phraseShares(settle, ...given, ...wanted),
      (shares) => shares,
    )
    .finally(() => memory.release());
}
