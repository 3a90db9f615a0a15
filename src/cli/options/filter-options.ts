// `collapsar filter`: its options.
import { type Command, Option } from 'commander';
import {
  DIALECTS,
  DIRECTIONS,
  LOSS_SCALINGS,
  METRICS,
  SINGLETON_POLICIES,
  STRATEGIES,
  TOP_P_MODES,
  TURN_REWARDS,
} from '../../filter/input/filter-options.js';
import type { FilterFlags } from '../commands/filter.js';
import { afterOptions } from '../output/help-text.js';
import type { Streams } from '../output/streams.js';
import { addLogOptions } from './log-options.js';
import { anyNumber, byteCount, delimiterNamed, encodingName, wholeNumber } from './option-values.js';

const HELP = `
A line is "group, reward" (commas, semicolons, tabs or spaces, all lines alike; a third field is the outcome), or has the fields that a first line of names
gives, or is a JSON object. Names are group (or group_id, uid), reward (or score) and, where they exist, outcome, episode, turn,
entropy, length. On a terminal all groups are shown as a table; elsewhere the kept ones are printed, one a line.
A rollout log (Parquet, JSON lines or a folder, see collapsar formats) has the rewards of one step, or of several, of which --step
names one.

Examples:
  collapsar filter runs/grpo-7b/step_00120.safetensors
  collapsar filter outputs/rollouts --step 120
  collapsar filter rewards.jsonl --dialect upstream --json
  cut -f 2,5 rollouts.tsv | collapsar filter - --strategy top_k --value 0.25

Exit status: 0, also when no group is kept; 1 when the file cannot be used; 2 for wrong usage.`;

/** @param done takes the exit status */
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  command
    .argument('<FILE>', 'a step file with rewards, a rollout log, lines of group and reward, or - for stdin')
    .addOption(new Option('--dialect <name>', 'whose rules to follow').choices(DIALECTS).default('strict'))
    .addOption(new Option('--strategy <name>', 'rule for how many groups to keep').choices(STRATEGIES).default('top_p'))
    .option(
      '--value <v>',
      'share or number that the strategy asks for (default: 0.9 for top_p, 1 for top_k of upstream)',
      anyNumber,
    )
    .addOption(new Option('--metric <name>', 'what groups are ranked by').choices(METRICS).default('reward_variance'))
    .addOption(new Option('--direction <name>', 'which scores are kept').choices(DIRECTIONS).default('largest'))
    .option('--include-zero', 'let groups of zero score be kept, such as those whose rollouts are all alike')
    .option(
      '--no-include-zero',
      'drop them first (default for reward_variance and entropy_variance, except under ragen)',
    )
    .addOption(new Option('--top-p-mode <name>', 'how top_p weighs groups').choices(TOP_P_MODES).default('linear'))
    .option('--eps <e>', "slack of top_p's threshold (default: by dialect, docs/reference/filter.md)", anyNumber)
    .addOption(
      new Option(
        '--singletons <policy>',
        'what to do with groups of one rollout (default: drop; upstream: they have variance 0)',
      ).choices(SINGLETON_POLICIES),
    )
    .addOption(
      new Option('--loss-scale <rule>', 'what the loss is multiplied by (default: none; paper: rho)').choices(
        LOSS_SCALINGS,
      ),
    )
    .addOption(
      new Option(
        '--turn-rewards <rule>',
        "what the rewards of turns make the episode's reward (default: same; ragen: first)",
      ).choices(TURN_REWARDS),
    )
    .addOption(
      new Option('--non-finite <what>', 'what to do with a reward that is NaN or infinite (default: error)').choices([
        'error',
        'exclude',
      ]),
    )
    .option('--ddof <n>', 'upstream: delta degrees of freedom of the variance (default: 1)', wholeNumber(0))
    .option('--encoding <name>', 'of lines of text, such as latin1 or utf-16le (default: UTF-8)', encodingName)
    .option(
      '--delimiter <which>',
      'what separates fields of lines: comma, semicolon, tab or space (default: as the first line shows)',
      delimiterNamed,
    )
    .option('--step <n>', 'which step of a rollout log', wholeNumber(0))
    .option('--max-memory <bytes>', 'approximate memory to read a rollout log in (default: 300MB)', byteCount)
    .option('--json', 'print one JSON object: kept and dropped groups, scores, row mask, loss scale, metrics');
  addLogOptions(command)
    .addHelpText('after', afterOptions(HELP))
    .action(async (file: string, flags: FilterFlags) => {
      const { filterCommand } = await import('../commands/filter.js');
      done(await filterCommand(file, flags, streams));
    });
}
