// Sums the scores of one step over tokens to [R, P], read once: a local file by the engine itself, others in blocks of
// prompts.

import { FileError } from '../../checks/errors.js';
import type { Engine } from '../../engine/engine.js';
import { elementBytes } from '../../engine/memory.js';
import type { TokenSums } from '../../engine/operations/sum-tokens.js';
import type { HostTensor } from '../../engine/tensor/tensor.js';
import type { StepData, StepScores } from '../../logs/steps/step-data.js';

/** To the caller of the library and of the command. */
const ADVICE = "correct what writes it, or leave such rows out with nonFinite: 'exclude' (--non-finite exclude)";

export type NonFinitePolicy = 'error' | 'exclude' | 'propagate';

/**
 * @param onBytes called with the size of each finished block of scores, for the progress within a large file
 * @returns sums over tokens [R, P], columns in the file's order
 * @throws {FileError} under `error`: naming the first used log-prob, or sum of them, that is NaN or +inf
 */
export async function tokenSums(
  engine: Engine,
  step: StepData,
  policy: NonFinitePolicy,
  signal: AbortSignal,
  onBytes: (bytes: number) => void = () => undefined,
): Promise<HostTensor> {
  const { scores, lengths, file } = step;
  if (scores.kind === 'sums') {
    const sums = await scores.read(signal);
    if (policy === 'error') await refuseInvalidSums(engine, step, scores, sums, signal);
    return sums;
  }
  const [prompts, rows] = scores.shape;
  const out = engine.alloc('float64', [rows, prompts]);
  const refuse = (firstPrompt: number, { prompt: promptInBlock, row, token }: InvalidToken): never => {
    const prompt = firstPrompt + promptInBlock;
    throw new FileError(
      { path: file, tensor: 'cross_logprobs', offset: scores.offsetOf(prompt, row, token) },
      `the log-prob of prompt ${prompt}, row ${row}, token ${token} is NaN or +inf, within the row's length of ` +
        `${lengths[row]}: ${ADVICE}`,
    );
  };
  if (scores.inFile !== undefined) {
    const bytes = scoreBytes(scores);
    let told = 0;
    const onProgress = (share: number): void => {
      const reached = Math.round(share * bytes);
      if (reached > told) onBytes(reached - told);
      told = reached;
    };
    const options = { out, signal, onProgress };
    const { firstInvalid } = await scores.inFile((opened) => engine.sumFileTokens(opened, lengths, options));
    if (firstInvalid !== null && policy === 'error') refuse(0, firstInvalid);
    return out;
  }
  let invalid: { firstPrompt: number; token: InvalidToken } | undefined;
  for await (const { firstPrompt, logprobs } of scores.blocks(signal)) {
    const columns = Int32Array.from({ length: logprobs.shape[0] as number }, (_, at) => firstPrompt + at);
    const { firstInvalid } = await engine.sumTokens(logprobs, lengths, { out, columns, signal });
    onBytes(logprobs.data.byteLength);
    if (firstInvalid !== null) invalid ??= { firstPrompt, token: firstInvalid };
  }
  // Not before all was read: that a file is damaged further on, which compressed ones tell at their end, is what is
  // wrong with it whatever the size of a block.
  if (invalid !== undefined && policy === 'error') refuse(invalid.firstPrompt, invalid.token);
  return out;
}

type InvalidToken = NonNullable<TokenSums['firstInvalid']>;

function scoreBytes({ shape: [prompts, rows, tokens], dtype }: Extract<StepScores, { kind: 'logprobs' }>): number {
  return prompts * rows * tokens * elementBytes[dtype];
}

/**
 * Looks at every row with reasoning, whether or not a sampler draws it: as with log-probs, neither the seed nor the
 * number of prompts decides about a file. −inf can be right (a probability of 0).
 * @throws {FileError} naming the first sum that is NaN or +inf
 */
async function refuseInvalidSums(
  engine: Engine,
  { file, lengths }: StepData,
  scores: Extract<StepScores, { kind: 'sums' }>,
  sums: HostTensor,
  signal: AbortSignal,
): Promise<void> {
  const [rows, columns] = scores.shape;
  // To the engine, which finds what cannot be, a row's scores are the tokens of one response.
  const used = Int32Array.from({ length: rows }, (_, row) => (Number(lengths[row]) > 0 ? columns : 0));
  const { firstInvalid } = await engine.sumTokens({ ...sums, shape: [1, rows, columns] }, used, { signal });
  if (firstInvalid === null) return;
  const { row, token: column } = firstInvalid;
  throw new FileError(
    { path: file, tensor: 'cross_logprob_sums', offset: scores.offsetOf(row, column) },
    `the score of row ${row} under prompt ${column} is ${sums.data[row * columns + column]}: ${ADVICE}`,
  );
}
