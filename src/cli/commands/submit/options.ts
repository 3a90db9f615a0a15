// `collapsar submit`: its options. Those of one engine are refused with another.

import { type Command, InvalidArgumentError, Option } from 'commander';
import { MOST_SHARDS } from '../../../analysis/store/most-shards.js';
import { LOG_FLAGS, logFlagText } from '../../options/log-options.js';
import { addMeasuringOptions } from '../../options/measuring-options.js';
import { byteCount, nonEmpty, outputPath, wholeNumber } from '../../options/option-values.js';
import { addTableOptions } from '../../options/table-options.js';
import { afterOptions, asForAnalyze } from '../../output/help-text.js';
import type { Streams } from '../../output/streams.js';
import type { SubmitFlags } from './flags.js';
import { ENGINE_OPTIONS } from './flags.js';

const HELP = `
Starts a task for each shard that is not complete (collapsar analyze --shard), and one that writes the results (collapsar
analyze --journals). What was complete before is kept: run again, without PATHS, the command submits only the rest.
--work, --out and the step files must be where all nodes see them under the same paths.

Examples:
  collapsar submit runs/ --engine slurm --work /shared/w --out /shared/results --partition cpu --cpus 4 --throttle 64 --wait
  collapsar submit --engine slurm --work /shared/w --out /shared/results       (again, for the shards that failed)
  collapsar submit runs/ --engine ray --work /shared/w --out /shared/results --wait
  collapsar submit /data/runs --engine kubernetes --image registry/collapsar:0.1 --claim data:/data --work /data/w \\
    --out /data/results | kubectl apply -f -

Exit status: 0 when everything was submitted; 1 when it could not be; 2 for wrong usage. With --wait: that of the analysis.`;

function each(text: string, before: string[] | undefined): string[] {
  return [...(before ?? []), nonEmpty(text)];
}

/** A name as Kubernetes takes them (RFC 1123 label), short enough for a number and a word behind it. */
function taskName(text: string): string {
  if (!/^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$/.test(text)) {
    throw new InvalidArgumentError('Expected at most 40 small letters, digits and dashes.');
  }
  return text;
}

/** @param done takes the exit status */
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  command
    .argument('[PATH...]', 'step files, rollout logs, directories of them, or globs')
    .addOption(
      new Option('--engine <name>', 'where to run it').choices(Object.keys(ENGINE_OPTIONS)).makeOptionMandatory(),
    )
    .requiredOption('--work <dir>', 'directory of journals, scripts and logs', outputPath)
    .requiredOption('--out <dir>', 'directory of the results', outputPath)
    .option('--shards <n>', 'cut into n shards (default: of 2GiB to 64GiB, about 64)', wholeNumber(1, MOST_SHARDS));
  asForAnalyze(addMeasuringOptions(command), 'What --wait prints', addTableOptions)
    .option('--threads <n>', 'threads of a task (default: its cores)', wholeNumber(1, 1024))
    .option('--max-memory <bytes>', 'approximate memory for a task to use (default: 300MB)', byteCount)
    .option('--dry-run', 'print scripts and commands as one script that does it all; write and submit nothing')
    .option('--wait', 'wait for its end, print what the analysis printed, and exit with its status')
    .option(
      '--collapsar <command>',
      'how a node starts collapsar, as a shell reads it (default: this installation)',
      nonEmpty,
    )
    .addOption(new Option('--name <name>', 'name of the jobs').argParser(taskName).default('collapsar'))
    .option('--cpus <n>', 'cores of a task', wholeNumber(1, 4096))
    .option('--mem <bytes>', 'memory of a task, such as 4GiB', byteCount)
    .option('--throttle <n>', 'most tasks to run at a time', wholeNumber(1, 1e6))
    .option('--retries <n>', 'times to start a task again after its node was lost', wholeNumber(0, 1000), 5)
    .option(
      '--shard-wait <seconds>',
      'how long the last task waits, after the last shard came, for shards that seem to be missing ' +
        '(default: 60, as a network file system may show files that late; Kubernetes: 21600, as all tasks start together)',
      wholeNumber(0, 1e7),
    )
    .option('--quiet', 'no progress on stderr')
    .optionsGroup('Slurm:')
    .option('--partition <name>', 'partition of the jobs', nonEmpty)
    .option('--account <name>', 'account of the jobs', nonEmpty)
    .option('--qos <name>', 'quality of service of the jobs', nonEmpty)
    .option('--time <limit>', 'time limit of a task, as sbatch takes it', nonEmpty)
    .option('--sbatch-arg <arg>', 'anything else for sbatch, such as --sbatch-arg=--constraint=ssd; repeatable', each)
    .optionsGroup('Ray:')
    .option('--ray-address <address>', "address of the cluster (default: RAY_ADDRESS, else this node's)", nonEmpty)
    .option('--python <program>', 'interpreter that has the package ray (default: python3)', nonEmpty)
    .option('--ray-resource <name=n>', 'custom resource that a task takes; repeatable', each)
    .optionsGroup('Kubernetes:')
    .option('--image <image>', 'container image with collapsar', nonEmpty)
    .option('--namespace <name>', 'namespace of the jobs', nonEmpty)
    .option('--claim <name:dir>', 'persistent volume claim and where pods mount it; repeatable', each)
    .option('--env-secret <name>', 'secret whose keys become environment variables; repeatable', each)
    .option('--node-selector <key=value>', 'label that nodes must have; repeatable', each)
    .addHelpText('after', afterOptions(HELP))
    .action(async (paths: string[], flags: SubmitFlags) => {
      const { submitCommand } = await import('./submit.js');
      done(await submitCommand(paths, flags, givenWords(command), streams));
    });
}

/** The options that were given, each as the words that give it again. */
function givenWords(command: Command): Map<string, string[]> {
  const given = new Map<string, string[]>();
  for (const option of command.options) {
    const name = option.attributeName();
    const key = option.long as string;
    if (command.getOptionValueSource(name) !== 'cli') continue;
    const value: unknown = command.getOptionValue(name);
    // With "=": a value may begin with a dash.
    if (value === true) given.set(name, [key]);
    else if (name === 'metrics') given.set(name, [`${key}=${(value as string[]).join(',')}`]);
    else if (LOG_FLAGS.some((flag) => flag === name)) given.set(name, [`${key}=${logFlagText(name, value)}`]);
    else
      given.set(
        name,
        (Array.isArray(value) ? value : [value]).map((one) => `${key}=${one}`),
      );
  }
  return given;
}
