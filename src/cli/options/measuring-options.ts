// Options on which the measurement of a step depends, for the commands that measure or plan to.
import { type Command, Option } from 'commander';
import { TURN_REWARDS, type TurnRewards } from '../../filter/input/filter-options.js';
import type { Profile } from '../../metrics/step-metrics.js';
import { asForAnalyze } from '../output/help-text.js';
import { addLogOptions, type LogFlags, logFlags } from './log-options.js';
import { globList, nameList, wholeNumber } from './option-values.js';

/** What they give. */
export interface MeasuringFlags extends LogFlags {
  profile: Profile;
  metrics?: string[];
  permutations: number;
  seed: number;
  samples: number;
  nonFinite: 'error' | 'exclude';
  placeholders: 'error' | 'exclude';
  turnRewards: TurnRewards;
  include?: string[];
  exclude?: string[];
}

/** The flags that figures depend on. */
export function figureFlags(flags: MeasuringFlags) {
  const { profile, permutations, seed, samples, nonFinite, placeholders, turnRewards } = flags;
  return { profile, permutations, seed, samples, nonFinite, placeholders, turnRewards, ...logFlags(flags) };
}

export function addMeasuringOptions(command: Command): Command {
  return asForAnalyze(command, 'What is measured and how logs are read', addAll);
}

function addAll(command: Command): Command {
  command
    .addOption(
      new Option('--profile <name>', "strict: the reference's defects repaired; ragen: exactly its numbers")
        .choices(['strict', 'ragen'])
        .default('strict'),
    )
    .option(
      '--metrics <names>',
      'metrics to give: logged keys, names without prefix, or globs, separated by commas',
      nameList,
    )
    .option(
      '--include <globs>',
      'of the files found in folders take those of these names only; may be repeated',
      globList,
    )
    .option('--exclude <globs>', 'leave those of these names or folders out', globList)
    .option('--permutations <n>', 'label permutations behind each p-value; 0 for none', wholeNumber(0, 1e7), 999)
    .option('--seed <n>', 'seed of permutations and samplers', wholeNumber(0), 0)
    .option('--samples <n>', 'draws of the trajectory and turn samplers', wholeNumber(1, 2 ** 24), 64)
    .addOption(
      new Option('--non-finite <what>', 'what a NaN or +inf in a used score does: fail the file, or leave out the row')
        .choices(['error', 'exclude'])
        .default('error'),
    )
    .addOption(
      new Option(
        '--placeholders <what>',
        'what a row with one score for all prompts does: fail the file, or be left out',
      )
        .choices(['error', 'exclude'])
        .default('exclude'),
    )
    .addOption(
      new Option('--turn-rewards <rule>', "what the rewards of an episode's turns make the episode's; same: they agree")
        .choices(TURN_REWARDS)
        .default('same'),
    );
  return addLogOptions(command);
}
