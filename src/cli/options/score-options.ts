// `collapsar score`: its options.
import { type Command, Option } from 'commander';
import { SCORING_ENGINES } from '../../scoring/open-scoring-engine.js';
import type { ScoreFlags } from '../commands/score.js';
import { afterOptions } from '../output/help-text.js';
import type { Streams } from '../output/streams.js';
import { addLogOptions } from './log-options.js';
import { byteCount, notEmpty, outputPath, wholeNumber } from './option-values.js';

const HELP = `
ROLLOUTS are logs: files, folders or globs. Logs of texts need the policy's tokenizer (--tokenizer), and are scored approximately:
their step files note it. Every response is scored under every prompt of its step, by an engine
that serves the policy of that step. Scores are log-probs at temperature 1, which step files note.
With --negatives, a step becomes a file of estimates instead, as a step file has no place for pairs that were not scored.

Examples:
  collapsar score rollouts/ --engine sglang --url http://localhost:30000 --out steps
  collapsar score traces.jsonl --engine vllm --url http://a:8000 --url http://b:8000 --out steps --resume
  collapsar score runs/verl --tokenizer models/policy --engine trl --url http://localhost:8000 --out steps
  collapsar analyze steps

Exit status: 0; 1 when a file or a step could not be used, or the engine failed; 2 for wrong usage.`;

/** @param done takes the exit status */
export function addScoreCommand(program: Command, streams: Streams, done: (status: number) => void): void {
  const command = program
    .command('score')
    .description('cross-scores of rollouts from an inference engine, as step files')
    .argument('<ROLLOUTS...>', 'rollout logs')
    .addOption(new Option('--engine <name>', 'what serves the policy').choices(SCORING_ENGINES).makeOptionMandatory())
    .requiredOption('--url <URL>', 'of the server; several replicas: give it again', urlList)
    .requiredOption('--out <DIR>', 'folder of the step files', outputPath)
    .option('--negatives <m>', 'score under so many prompts besides the own, at least 3', wholeNumber(3))
    .option('--seed <n>', 'seed of that draw', wholeNumber(0), 0)
    .option('--tokenizer <PATH>', "of the policy, for logs of texts: a tokenizer.json or the model's folder", notEmpty)
    .option('--tokens-in-flight <n>', 'most tokens of requests under way (default: 262144)', wholeNumber(1))
    .option('--max-memory <bytes>', 'approximate memory to read the logs in (default: 300MB)', byteCount)
    .option('--resume', 'leave out steps whose files are there')
    .option('--quiet', 'no progress on stderr')
    .showHelpAfterError('(see collapsar score --help)');
  addLogOptions(command)
    .addHelpText('after', afterOptions(HELP))
    .action(async (paths: string[], flags: ScoreFlags) => {
      const { scoreCommand } = await import('../commands/score.js');
      done(await scoreCommand(paths, flags, streams));
    });
}

function urlList(text: string, before: string[] | undefined): string[] {
  return [...(before ?? []), new URL(text).href];
}
