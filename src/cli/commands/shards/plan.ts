// `collapsar plan`: step files in, a manifest out, and on stdout what is in it.

import { shortBytes } from '../../../checks/numbers.js';
import { shellWord } from '../../../checks/shell-words.js';
import { counted, escaped } from '../../../checks/words.js';
import { planSteps } from '../../input/plan-steps.js';
import type { PlanningFlags } from '../../options/planning-options.js';
import { EXIT } from '../../output/exit-codes.js';
import type { Streams } from '../../output/streams.js';
import { impossibleMetrics } from '../metric-check.js';

export interface PlanFlags extends PlanningFlags {
  out: string;
  strict?: true;
  json?: true;
  quiet?: true;
}

/** @returns exit status */
export async function planCommand(paths: readonly string[], flags: PlanFlags, streams: Streams): Promise<number> {
  const { out, err } = streams;
  const impossible = impossibleMetrics(flags.metrics, flags.profile);
  if (impossible !== undefined) {
    await err.write(impossible);
    return EXIT.usage;
  }
  const { strict, json, quiet, ...options } = flags;
  const { planned, failures } = await planSteps(paths, options, quiet, streams);
  if (planned === undefined) return EXIT.failures;
  const { path, steps, bytes, shards } = planned;
  if (json) {
    const facts = {
      manifest: path,
      digest: planned.digest,
      shards: shards.length,
      steps,
      bytes,
      failures,
    };
    await out.write(`${JSON.stringify(facts)}\n`);
  } else {
    await out.write(
      `${escaped(path)}: ${counted(steps, 'steps')}, ${shortBytes(bytes)}, ${counted(shards.length, 'shards')}. Next` +
        `${shards.length > 1 ? `, for each --index from 0 to ${shards.length - 1}` : ''}:\n` +
        `  collapsar map --manifest ${escaped(shellWord(path))} --out DIR --index 0\n`,
    );
  }
  // What could be planned can be mapped; what could not is listed again, with exit status 1, by finalize.
  return failures > 0 && strict ? EXIT.failures : EXIT.ok;
}
