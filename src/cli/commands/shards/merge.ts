// `collapsar merge`: states in, one state out, and on stdout what it holds.
import { Aggregates } from '../../../analysis/aggregates/aggregates.js';
import { mergeStates } from '../../../analysis/shards/merge.js';
import { ArgumentError } from '../../../checks/errors.js';
import { argumentProblem, escaped } from '../../../checks/words.js';
import { EXIT } from '../../output/exit-codes.js';
import { Progress } from '../../output/progress.js';
import type { Streams } from '../../output/streams.js';

export interface MergeFlags {
  out: string;
  fanIn?: number;
  json?: true;
  quiet?: true;
}

/** @returns exit status */
export async function mergeCommand(paths: readonly string[], flags: MergeFlags, streams: Streams): Promise<number> {
  const { out, err, signal } = streams;
  const progress = Progress.of(streams, flags.quiet);
  /** As they are printed: of very many runs no string holds them all. */
  const runs: string[] = [];
  const all = new Aggregates();
  try {
    const { states, steps, failures } = await mergeStates(paths, {
      out: flags.out,
      fanIn: flags.fanIn,
      signal,
      onProgress: (state) => progress.update(state),
      onRun: ({ name: run, directory, steps: measured, failures: failed, aggregates }) => {
        if (!flags.json) return;
        all.merge(aggregates);
        runs.push(JSON.stringify({ run, directory, steps: measured, failures: failed, metrics: aggregates.summary() }));
      },
    });
    progress.clear();
    if (flags.json) {
      const head = JSON.stringify({ state: flags.out, states, steps: steps - failures, failures });
      await out.write(`${head.slice(0, -1)},"runs":[`);
      for (const [at, run] of runs.entries()) await out.write(at === 0 ? run : `,${run}`);
      await out.write(`],"metrics":${JSON.stringify(all.summary())}}\n`);
    } else {
      const failed = failures === 0 ? '' : `, ${failures} of them failed`;
      await out.write(
        `${escaped(flags.out)}: ${steps} ${steps === 1 ? 'step' : 'steps'}${failed}, from ${states} ${states === 1 ? 'state' : 'states'}\n`,
      );
    }
    return EXIT.ok;
  } catch (error) {
    progress.clear();
    if (error instanceof ArgumentError) {
      await err.write(`error: ${escaped(optionText(error))}\n(see collapsar merge --help)\n`);
      return EXIT.usage;
    }
    throw error;
  }
}

/** The message, with the argument by the name that it has on the command line. */
function optionText(error: ArgumentError): string {
  const problem = argumentProblem(error);
  return error.argument === 'options.out' ? `--out: ${problem}` : problem;
}
