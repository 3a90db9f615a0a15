// `collapsar plan-scores`: its options.
import type { Command } from 'commander';
import type { PlanScoresFlags } from '../commands/plan-scores.js';
import { EXIT } from '../output/exit-codes.js';
import { afterOptions } from '../output/help-text.js';
import type { Streams } from '../output/streams.js';
import { byteCount, encodingName, share, wholeNumber } from './option-values.js';

const HELP = `
FILE is a step file (.safetensors, also .gz; .npz, .npy), or JSON lines with a row each: {"group": 3, "length": 120, "turn": 1};
- is stdin. Groups have numbers or names ("uid": "b1f0").
Each line of the result is a prompt with the rows to score under it, so that its KV cache serves them all. "inclusion" is the
probability with which each pair was drawn; it is 1 for a row's own prompt.

Examples:
  collapsar plan-scores step_00120.safetensors --negatives 4 > pairs.jsonl
  collapsar plan-scores rows.jsonl --negatives 8 --hard --csv

Exit status: 0; 1 when the file cannot be used or is too small for what was asked; 2 for wrong usage.`;

/** @param done takes the exit status */
export function addPlanScoresCommand(program: Command, streams: Streams, done: (status: number) => void): void {
  program
    .command('plan-scores')
    .description('which (row, prompt) pairs to score when scoring all of them is too expensive')
    .argument('<FILE>', 'step file, JSON lines of rows, or - for stdin')
    .requiredOption(
      '--negatives <m>',
      'prompts other than its own to score each row under, at least 3 (with --hard 4)',
      wholeNumber(3),
    )
    .option('--seed <n>', 'seed of the draw', wholeNumber(0), 0)
    .option('--hard', 'draw some of these from the prompts of the same turn')
    .option('--hard-share <x>', 'with --hard: the share of negatives from the same turn, 0 to 1', share, 0.5)
    .option('--encoding <name>', 'of lines of text, such as latin1 (default: UTF-8)', encodingName)
    .option('--max-memory <bytes>', 'approximate memory to read FILE in (default: 300MB)', byteCount)
    .option('--csv', 'print CSV, a pair a line, instead of JSON lines, a prompt a line')
    .option('--quiet', 'no summary on stderr')
    .showHelpAfterError('(see collapsar plan-scores --help)')
    .addHelpText('after', afterOptions(HELP))
    .action(async (file: string, flags: PlanScoresFlags, command: Command) => {
      if (command.getOptionValueSource('hardShare') === 'cli' && !flags.hard) {
        command.error('error: --hard-share is a share of what --hard draws: give --hard, or leave it out', {
          exitCode: EXIT.usage,
        });
      }
      const { planScoresCommand } = await import('../commands/plan-scores.js');
      done(await planScoresCommand(file, flags, streams));
    });
}
