// `collapsar plan-scores`: the rows of a step in, the (row, prompt) pairs to score on stdout, prompt by prompt; what
// that saves on stderr.
import type { Readable } from 'node:stream';
import type { Command } from 'commander';
import { ArgumentError, FileError } from '../../checks/errors.js';
import { exactPercent } from '../../checks/numbers.js';
import { argumentProblem } from '../../checks/words.js';
import type { Integers } from '../../engine/tensor/tensor.js';
import { isStepName } from '../../logs/input-names.js';
import { DEFAULT_MEMORY } from '../../logs/rollouts/log-options.js';
import type { OptionalTensor } from '../../logs/steps/read-step-options.js';
import { readStepFile } from '../../logs/steps/step-file.js';
import { nameOf } from '../../logs/stores/store.js';
import { arrangeColumns } from '../../metrics/columns.js';
import { planScores, type ScorePlan, type ScorePlanInput } from '../../metrics/sampled/plan.js';
import { turnsByRows } from '../../metrics/sampled/prompt-turns.js';
import { loggedRows } from '../input/logged-rows.js';
import { addColumnsOption, type LogFlags } from '../options/log-options.js';
import { byteCount, share, wholeNumber } from '../options/option-values.js';
import { EXIT } from '../output/exit-codes.js';
import { afterOptions } from '../output/help-text.js';
import type { Streams } from '../output/streams.js';

const HELP = `
FILE is a step file (.safetensors, also .gz; .npz, .npy), a rollout log, or a table in JSON lines, CSV or Parquet with a row each:
{"group": 3, "length": 120, "turn": 1}; - is a table on stdin. Groups have numbers or names ("uid": "b1f0").
Each line of the result is a prompt with the rows to score under it, so that its KV cache serves them all. "inclusion" is the
probability with which each pair was drawn; it is 1 for a row's own prompt.

Examples:
  collapsar plan-scores step_00120.safetensors --negatives 4 > pairs.jsonl
  collapsar plan-scores rows.jsonl --negatives 8 --hard --csv

Exit status: 0; 1 when the file cannot be used or is too small for what was asked; 2 for wrong usage.`;

/** @param done takes the exit status */
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  addColumnsOption(command)
    .argument('<FILE>', 'step file, rollout log, table of rows, or - for a table on stdin')
    .requiredOption(
      '--negatives <m>',
      'prompts other than its own to score each row under, at least 3 (with --hard 4)',
      wholeNumber(3),
    )
    .option('--seed <n>', 'seed of the draw', wholeNumber(0), 0)
    .option('--hard', 'draw some of these from the prompts of the same turn')
    .option('--hard-share <x>', 'with --hard: the share of negatives from the same turn, 0 to 1', share, 0.5)
    .option('--step <n>', 'which step of a log of several', wholeNumber(0))
    .option('--max-memory <bytes>', 'approximate memory to read FILE in (default: 300MB)', byteCount)
    .option('--csv', 'print CSV, a pair a line, instead of JSON lines, a prompt a line')
    .option('--quiet', 'no summary on stderr')
    .addHelpText('after', afterOptions(HELP))
    .action(async (file: string, flags: PlanScoresFlags) => {
      if (command.getOptionValueSource('hardShare') === 'cli' && !flags.hard) {
        command.error('error: --hard-share is a share of what --hard draws: give --hard, or leave it out', {
          exitCode: EXIT.usage,
        });
      }
      done(await planScoresCommand(file, flags, streams));
    });
}

/** The options of the command line, checked. */
export interface PlanScoresFlags {
  negatives: number;
  seed: number;
  hard?: true;
  hardShare: number;
  csv?: true;
  step?: number;
  columns?: LogFlags['columns'];
  maxMemory?: number;
  quiet?: true;
}

/** A step without its scores. */
interface UnscoredStep {
  readonly input: ScorePlanInput;
  /** [P] the group of each prompt, in the plan's numbering, as JSON. */
  readonly groupNames: readonly string[];
}

/** Values a token of every response, which a plan does not need. */
const UNUSED: ReadonlySet<OptionalTensor> = new Set<OptionalTensor>(['response_ids', 'token_entropy']);

/** Prompts written at a time. */
const CHUNK = 256;

/** @returns exit status */
export async function planScoresCommand(
  path: string,
  flags: PlanScoresFlags,
  streams: Streams,
  stdin: Readable = process.stdin,
): Promise<number> {
  const { out, err, signal } = streams;
  const { input, groupNames } = isStepName(nameOf(path))
    ? await fromStepFile(path, flags, signal)
    : await fromRows(path, stdin, flags, signal);
  const plan = planOf(input, flags);
  if (flags.csv) await out.write('prompt,group,row,inclusion\n');
  for (let first = 0; first < plan.byPrompt.length && !out.closed.aborted; first += CHUNK) {
    await out.write(lines(plan, groupNames, first, flags.csv === true));
  }
  if (!flags.quiet) await err.write(`${saving(plan)}\n`);
  return EXIT.ok;
}

/** What only the rows' turns show of the options is said in the options' words here. */
function planOf(input: ScorePlanInput, { negatives, seed, hardShare }: PlanScoresFlags): ScorePlan {
  try {
    return planScores(input, { negatives, seed, hardShare });
  } catch (error) {
    if (!(error instanceof ArgumentError) || error.argument !== 'options.negatives') throw error;
    throw new ArgumentError('--negatives', `${argumentProblem(error)}; or leave out --hard`, { cause: error });
  }
}

function lines(plan: ScorePlan, groupNames: readonly string[], first: number, csv: boolean): string {
  return plan.byPrompt
    .slice(first, first + CHUNK)
    .map(({ prompt, rows, first: from }) => {
      const group = groupNames[prompt] as string;
      const chances = plan.inclusion.subarray(from, from + rows.length);
      const field = csv ? csvField(group) : '';
      return csv
        ? Array.from(rows, (row, at) => `${prompt},${field},${row},${chances[at]}\n`).join('')
        : `{"prompt":${prompt},"group":${group},"rows":[${rows.join(',')}],"inclusion":[${chances.join(',')}]}\n`;
    })
    .join('');
}

/** Names that hold a separator are quoted, as RFC 4180 has it. */
function csvField(json: string): string {
  const text = json.startsWith('"') ? (JSON.parse(json) as string) : json;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function saving({ cost, complete }: ScorePlan): string {
  const { pairs, ownPairs, allPairs, distinctPairs } = cost;
  const parts = [
    `${pairs} of ${allPairs} pairs to score: ${exactPercent(cost.saved)} saved`,
    `${ownPairs} of them are rows under their own prompt, which a trainer has mostly scored already`,
  ];
  if (distinctPairs < allPairs) parts.push(`equal prompts are scored once (${distinctPairs} different pairs)`);
  if (complete) parts.push('there are no further negatives: every pair of different prompts is scored');
  return parts.join('\n');
}

async function fromStepFile(path: string, flags: PlanScoresFlags, signal: AbortSignal): Promise<UnscoredStep> {
  const step = await readStepFile(path, { signal, maxMemory: flags.maxMemory ?? DEFAULT_MEMORY, unread: UNUSED });
  const { group: groups, lengths, columnGroup: columnGroups, prompts: promptTokens } = step;
  if (flags.hard && step.turn === undefined) {
    throw new FileError({ path, tensor: 'turn' }, 'missing; --hard needs the turn of each row');
  }
  const promptTurns = flags.hard && step.turn ? turns(path, groups, step.turn, columnGroups) : undefined;
  return {
    input: { groups, lengths, columnGroups, promptTokens, promptTurns },
    groupNames: Array.from(columnGroups, String),
  };
}

/** Columns are the groups that occur: by rising number or, where some have names, in the order in which they come. */
async function fromRows(
  given: string,
  stdin: Readable,
  { hard, step, columns, maxMemory }: PlanScoresFlags,
  signal: AbortSignal,
): Promise<UnscoredStep> {
  const choice = { step, maxMemory, ...(columns && { columns }) };
  const { path, rows } = await loggedRows(given, 'length', choice, signal, stdin);
  const names = rows.groupIds;
  const isNumbered = names.every((name) => /^-?\d+$/.test(name));
  const order = names.map((_, id) => id);
  if (isNumbered) order.sort((a, b) => (BigInt(names[a] as string) < BigInt(names[b] as string) ? -1 : 1));
  const placeOf = new Int32Array(order.length);
  for (const [place, id] of order.entries()) placeOf[id] = place;
  const groups = (rows.group as Int32Array).map((id) => placeOf[id] as number);
  const lengths = wholeNumbers(path, 'length', rows.length);
  const columnGroups = Int32Array.from(order, (_, place) => place);
  const promptTurns = hard ? turns(path, groups, wholeNumbers(path, 'turn', rows.turn), columnGroups) : undefined;
  const groupNames = order.map((id) => (isNumbered ? (names[id] as string) : JSON.stringify(names[id])));
  return { input: { groups, lengths, columnGroups, promptTurns }, groupNames };
}

/** @throws {FileError} naming the first row that has none */
function wholeNumbers(path: string, name: 'length' | 'turn', column: Float64Array | undefined): number[] {
  const advice = name === 'turn' ? '; --hard needs the turn of each row' : '';
  if (column === undefined) throw new FileError({ path }, `no row has a ${name}, a whole number${advice}`);
  const bad = column.findIndex((value) => !Number.isSafeInteger(value) || value < 0);
  if (bad < 0) return [...column];
  throw new FileError({ path }, `row ${bad} has no ${name} that is a whole number${advice}`);
}

/** The file is at fault where its turns contradict each other. */
function turns(path: string, groups: Integers, rowTurns: Integers, columnGroups: Integers): Int32Array {
  try {
    return turnsByRows(arrangeColumns(groups, columnGroups, undefined), rowTurns, 'leave out --hard');
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    throw new FileError({ path }, error.message, { cause: error });
  }
}
