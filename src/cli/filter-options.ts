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
} from '../filter/filter-options.js';
import type { FilterFlags } from './filter.js';
import { afterOptions } from './help-text.js';
import { anyNumber, wholeNumber } from './option-values.js';
import type { Streams } from './streams.js';

const HELP = `
A line is "group, reward" (commas, tabs or spaces; a third field is the outcome), what a first line of names says, or a JSON
object. Names are group (or group_id, uid), reward (or score) and, if there are, outcome, episode, turn, entropy, length. On a
terminal all groups are shown as a table; elsewhere the kept ones are printed, one a line.

Examples:
  collapsar filter runs/grpo-7b/step_00120.safetensors
  collapsar filter rewards.jsonl --dialect upstream --json
  cut -f 2,5 rollouts.tsv | collapsar filter - --strategy top_k --value 0.25

Exit status: 0, also when no group is kept; 1 when the file cannot be used; 2 for wrong usage.`;

/** @param done takes the exit status */
export function addFilterCommand(program: Command, streams: Streams, done: (status: number) => void): void {
  program
    .command('filter')
    .description('groups (prompts) of a step that are worth an update: the variance-based filter')
    .argument('<FILE>', 'a step file with rewards, lines of group and reward, or - for stdin')
    .addOption(new Option('--dialect <name>', 'whose rules').choices(DIALECTS).default('strict'))
    .addOption(new Option('--strategy <name>', 'how many to keep').choices(STRATEGIES).default('top_p'))
    .option('--value <v>', 'share or number that the strategy asks for (default: 0.9 for top_p)', anyNumber)
    .addOption(new Option('--metric <name>', 'what groups are ranked by').choices(METRICS).default('reward_variance'))
    .addOption(new Option('--direction <name>', 'which scores are kept').choices(DIRECTIONS).default('largest'))
    .option('--include-zero', 'groups of zero score, such as those whose rollouts are all alike, may be kept')
    .option(
      '--no-include-zero',
      'they are dropped first (default for reward_variance and entropy_variance, but under ragen)',
    )
    .addOption(new Option('--top-p-mode <name>', 'masses of top_p').choices(TOP_P_MODES).default('linear'))
    .option('--eps <e>', "slack of top_p's threshold (default: by dialect, docs/filter.md)", anyNumber)
    .addOption(
      new Option(
        '--singletons <policy>',
        'groups of one rollout (default: drop; upstream: they have variance 0)',
      ).choices(SINGLETON_POLICIES),
    )
    .addOption(
      new Option('--loss-scale <rule>', 'what the loss is multiplied with (default: none; paper: rho)').choices(
        LOSS_SCALINGS,
      ),
    )
    .addOption(
      new Option('--turn-rewards <rule>', "which turn has its episode's reward (default: same; ragen: first)").choices(
        TURN_REWARDS,
      ),
    )
    .addOption(
      new Option('--non-finite <what>', 'a reward that is NaN or infinite (default: error)').choices([
        'error',
        'exclude',
      ]),
    )
    .option('--ddof <n>', 'upstream: delta degrees of freedom of the variance (default: 1)', wholeNumber(0))
    .option('--json', 'print one JSON object: kept and dropped groups, scores, row mask, loss scale, metrics')
    .showHelpAfterError('(see collapsar filter --help)')
    .addHelpText('after', afterOptions(HELP))
    .action(async (file: string, flags: FilterFlags) => {
      const { filterCommand } = await import('./filter.js');
      done(await filterCommand(file, flags, streams));
    });
}
