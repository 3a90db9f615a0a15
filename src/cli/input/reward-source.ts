// Where `collapsar filter` gets rewards from: a step file, or lines of text from a file or stdin.

import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { inStoredPrecision } from '../../analysis/measuring/measure-step-data.js';
import { FileError } from '../../checks/errors.js';
import { openEngine } from '../../engine/open-engine.js';
import type { Tensor } from '../../engine/tensor/tensor.js';
import type { FilterSettings } from '../../filter/input/filter-options.js';
import { isStepName } from '../../logs/input-names.js';
import { UnreadFileError } from '../../logs/rollouts/rows/unread-file.js';
import type { StepData } from '../../logs/steps/step-data.js';
import { readStepFile } from '../../logs/steps/step-file.js';
import { nameOf } from '../../logs/stores/store.js';
import type { FilterSource } from './filter-source.js';
import { RewardLines } from './reward-lines.js';
import { fromRollouts, type LogChoice } from './rollout-rewards.js';
import type { Delimiter } from './separated-fields.js';
import { readLines } from './text-lines.js';

/** How lines of text are written. */
export interface TextForm {
  /** Default UTF-8. */
  readonly encoding?: string | undefined;
  /** What stands between fields. Default: what the first line shows. */
  readonly delimiter?: Delimiter | undefined;
}

/**
 * @param path of a step file (*.safetensors), of a rollout log, of lines of text, or `-` for lines on stdin
 * @param form of lines of text
 * @param logs how a rollout log is read, and which step of it is meant
 * @throws FileError naming the path, and the line where there is one
 */
export async function readFilterSource(
  path: string,
  settings: FilterSettings,
  form: TextForm,
  logs: LogChoice,
  signal: AbortSignal,
): Promise<FilterSource> {
  if (isStepName(nameOf(path))) return fromStep(await readStepFile(path, { signal }), settings, signal);
  const stdin = path === '-';
  // What says how lines of text are written is about lines of rewards.
  const isText = stdin || form.encoding !== undefined || form.delimiter !== undefined;
  const logged = isText ? undefined : await fromRollouts(path, logs, signal);
  if (logged !== undefined && !(logged instanceof UnreadFileError)) return logged;
  try {
    return await fromLines(stdin ? 'stdin' : path, stdin ? process.stdin : createReadStream(path), form, signal);
  } catch (error) {
    // Its lines have other names than those of rewards, and what they mean can be guessed.
    const isOther = error instanceof FileError && error.problem.startsWith('line 1 has no ');
    if (!isOther || logged?.guess?.reward === undefined) throw error;
    throw new FileError({ path }, logged.problem.replaceAll('collapsar analyze', 'collapsar filter'));
  }
}

async function fromLines(
  path: string,
  stream: Readable,
  { encoding, delimiter }: TextForm,
  signal: AbortSignal,
): Promise<FilterSource> {
  signal.throwIfAborted();
  const lines = new RewardLines(path, delimiter);
  await readLines(stream, path, encoding, signal, (line) => lines.add(line));
  return lines.finish();
}

async function fromStep(step: StepData, settings: FilterSettings, signal: AbortSignal): Promise<FilterSource> {
  const { file, rewards, group, episode, turn, correct } = step;
  if (rewards === undefined) {
    throw new FileError({ path: file }, 'has no tensor "rewards": write the reward of each row with the step');
  }
  const wantsEntropy = settings.metric === 'entropy' || settings.metric === 'entropy_variance';
  const outcomes = inStoredPrecision(step, 'outcome') ?? correct;
  return {
    path: file,
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
    nameOfRow: (row) => `row ${row}`,
    nameOfReward: String,
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
