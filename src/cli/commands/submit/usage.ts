// Finds mistakes in the command line of `collapsar submit` before anything is done.

import type { Given, SubmitFlags } from './flags.js';
import { ANALYSIS_OPTIONS, ENGINE_OPTIONS } from './flags.js';

/** A command line that makes no sense. */
export class Usage extends Error {}

/** @throws {Usage} for options that do not go with each other */
export function checkUsage(paths: readonly string[], flags: SubmitFlags, given: Given): void {
  for (const [engine, names] of Object.entries(ENGINE_OPTIONS)) {
    const foreign = engine === flags.engine ? undefined : names.find((name) => given.has(name));
    if (foreign !== undefined) {
      throw new Usage(`${optionName(given, foreign)} is for --engine ${engine}, not for ${flags.engine}`);
    }
  }
  if (paths.length === 0) {
    const option = ANALYSIS_OPTIONS.find((name) => given.has(name));
    if (option !== undefined) {
      throw new Usage(`${optionName(given, option)} goes with PATHS: give these, or leave it out`);
    }
  }
  if (flags.engine !== 'kubernetes') return;
  if (flags.wait) throw new Usage('--wait: nothing is submitted here; kubectl wait follows a job');
  if (flags.image === undefined) throw new Usage('--engine kubernetes needs --image');
  if (flags.claim === undefined) throw new Usage('--engine kubernetes needs --claim: pods must have --work and --out');
}

function optionName(given: Given, name: string): string {
  return (given.get(name)?.[0] ?? name).replace(/=.*$/s, '');
}
