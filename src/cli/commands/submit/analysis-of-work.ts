// Determines what is analysed, and in how many shards, from PATHS or from what --work keeps: what is left can be
// submitted again without repeating it.
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { measureOptions } from '../../../analysis/measuring/measure-options.js';
import { textOfFile } from '../../../analysis/results/regular-file.js';
import { journalHead } from '../../../analysis/store/journal-lines.js';
import { FileError, StateError } from '../../../checks/errors.js';
import { count, fields, list, text } from '../../../checks/saved.js';
import type { SubmissionFile } from '../../../cluster/submission.js';
import { systemProblem } from '../../../logs/stores/system-problem.js';
import { foundBytes } from '../../input/found-steps.js';
import { figureFlags } from '../../options/measuring-options.js';
import type { Streams } from '../../output/streams.js';
import { type Given, MEASURING_OPTIONS, type SubmitFlags } from './flags.js';
import { Usage } from './usage.js';

/** What tasks of every submission of one --work have in common. */
export interface AnalysisOfWork {
  /** Head of the journals: version, figures and options. */
  readonly head: string;
  /** Directory that paths are relative to. */
  readonly from: string;
  readonly paths: readonly string[];
  readonly measuring: readonly string[];
  readonly metrics: readonly string[];
  readonly shards: number;
}

const shape = fields({
  head: text,
  from: text,
  paths: list(text),
  measuring: list(text),
  metrics: list(text),
  shards: count,
});

/** A shard of fewer bytes takes less time to read than its task takes to start, and of one of more a lost task loses much. */
const [LEAST_BYTES, MOST_BYTES] = [2 * 2 ** 30, 64 * 2 ** 30];
/** Enough for the workers of most clusters. */
const SHARDS = 64;

/** Default number of shards, for steps of `bytes` together. */
export function usualShards(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / Math.min(MOST_BYTES, Math.max(LEAST_BYTES, bytes / SHARDS))));
}

/**
 * @returns the analysis, and the file that is to keep it where none does; undefined if there is nothing to analyse,
 *   which has been said then
 */
export async function analysisOfWork(
  paths: readonly string[],
  flags: SubmitFlags,
  given: Given,
  work: string,
  streams: Streams,
): Promise<{ analysis: AnalysisOfWork; record?: SubmissionFile } | undefined> {
  const path = join(work, 'analysis.json');
  const known = await recorded(path);
  if (paths.length === 0) {
    if (known === undefined) throw new Usage(`${path} is not there: give PATHS`);
    const { measuring } = JSON.parse(known.head);
    if (journalHead(measuring) === known.head) return { analysis: known };
    throw new StateError(
      `${path}: of another version of collapsar: use one version everywhere, or give another --work`,
    );
  }
  const words = (names: readonly string[]): string[] => names.flatMap((name) => given.get(name) ?? []);
  const analysis = {
    head: journalHead(measureOptions(figureFlags(flags))),
    from: process.cwd(),
    paths,
    measuring: words(MEASURING_OPTIONS),
    metrics: words(['metrics']),
  };
  if (known !== undefined) {
    const { shards, ...same } = known;
    const isSame = JSON.stringify(same) === JSON.stringify(analysis) && (flags.shards ?? shards) === shards;
    if (isSame) return { analysis: known };
    throw new StateError(
      `${path}: made of other paths, options, shards or versions, or in another directory (${known.from}). ` +
        'Leave out PATHS and the options of the analysis to continue with it, or give another --work',
    );
  }
  const bytes = await foundBytes(paths, flags, streams);
  if (bytes === undefined) return undefined;
  const whole = { ...analysis, shards: flags.shards ?? usualShards(bytes) };
  return { analysis: whole, record: { path, text: `${JSON.stringify(whole)}\n`, isProgram: false } };
}

/** @returns undefined if there is none */
async function recorded(path: string): Promise<AnalysisOfWork | undefined> {
  const isThere = await access(path, constants.F_OK).then(
    () => true,
    () => false,
  );
  if (!isThere) return undefined;
  const saved = await textOfFile(path).catch((error: unknown) => {
    throw new FileError({ path }, `cannot be read: ${systemProblem(error)}`, { cause: error });
  });
  try {
    return shape(JSON.parse(saved));
  } catch (error) {
    if (!(error instanceof StateError || error instanceof SyntaxError)) throw error;
    throw new StateError(`${path}: damaged: remove it and give PATHS, or give another --work`, { cause: error });
  }
}
