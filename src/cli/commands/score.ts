// `collapsar score`: rollouts of a trainer in, step files with cross-scores out, by an inference engine.
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { FileError } from '../../checks/errors.js';
import { escaped } from '../../checks/words.js';
import { readRollouts } from '../../logs/rollouts/read-rollouts.js';
import { writeStep } from '../../logs/steps/write-step.js';
import { openScoringEngine, SCORING_ENGINES, type ScoringEngineName } from '../../scoring/open-scoring-engine.js';
import { scoreRollouts } from '../../scoring/score-rollouts.js';
import { openTokenizer } from '../../scoring/text-tokenizer.js';
import { tagTokens } from '../../scoring/tokenized.js';
import { fileNameOf } from '../../sinks/run-file.js';
import { addLogOptions, type LogFlags, logFlags } from '../options/log-options.js';
import { byteCount, notEmpty, outputPath, wholeNumber } from '../options/option-values.js';
import { EXIT } from '../output/exit-codes.js';
import { afterOptions } from '../output/help-text.js';
import type { Streams } from '../output/streams.js';

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
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  command
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
    .option('--quiet', 'no progress on stderr');
  addLogOptions(command)
    .addHelpText('after', afterOptions(HELP))
    .action(async (paths: string[], flags: ScoreFlags) => {
      done(await scoreCommand(paths, flags, streams));
    });
}

function urlList(text: string, before: string[] | undefined): string[] {
  return [...(before ?? []), new URL(text).href];
}

export interface ScoreFlags extends LogFlags {
  engine: ScoringEngineName;
  url: string[];
  out: string;
  negatives?: number;
  seed: number;
  tokenizer?: string;
  tokensInFlight?: number;
  maxMemory?: number;
  resume?: true;
  quiet?: true;
}

/** @returns exit status */
export async function scoreCommand(paths: readonly string[], flags: ScoreFlags, streams: Streams): Promise<number> {
  const { engine: name, url: urls, out, negatives, seed, tokensInFlight, maxMemory, resume, quiet } = flags;
  const { reasoning } = flags;
  const { err, signal } = streams;
  const servers = urls.map((url) => url.replace(/\/+$/, ''));
  const engine = await openScoringEngine(name, servers[0] as string, { signal });
  const tokenizer = flags.tokenizer === undefined ? undefined : await openTokenizer(flags.tokenizer);
  const tags = flags.tagTokens ?? (tokenizer && tagTokens(tokenizer, reasoning));
  const reading = { ...logFlags(flags), ...(tags && { tagTokens: tags }) };
  mkdirSync(out, { recursive: true });
  let failures = 0;
  const onError = (error: FileError): void => {
    failures++;
    void err.write(`${escaped(error.message)}\n`);
  };
  let written = 0;
  for await (const rollouts of readRollouts(paths, { ...reading, maxMemory, onError, signal })) {
    const path = join(out, fileName(rollouts.run, rollouts.step, negatives !== undefined));
    if (existsSync(path)) {
      if (!resume) throw new FileError({ path }, 'is there already: give --resume to go on after it, or another --out');
      continue;
    }
    const progress = new Progress(rollouts.step, quiet ? undefined : streams);
    try {
      const scored = await scoreRollouts(engine, rollouts, {
        urls: servers,
        negatives,
        seed,
        tokenizer,
        reasoning,
        tokensInFlight,
        signal,
        onPlan: (pairs) => progress.plan(pairs),
        onScored: (pairs, tokens) => progress.add(pairs, tokens),
      });
      if (scored.kind === 'step') await writeStep(path, scored.step);
      else writeEstimates(path, rollouts.run, rollouts.step, scored.metadata, scored.estimates);
      written++;
      await progress.end();
    } catch (error) {
      // A step that cannot be scored is named, and the others are.
      if (!(error instanceof FileError)) throw error;
      onError(error);
    }
  }
  if (!quiet) await err.write(`${written} steps written to ${escaped(out)}\n`);
  return failures > 0 ? EXIT.failures : EXIT.ok;
}

/** Runs of one folder are side by side. */
function fileName(run: string, step: number, estimated: boolean): string {
  const prefix = run === '' ? '' : `${fileNameOf(run, /[^A-Za-z0-9._-]+/g)}_`;
  return `${prefix}step_${String(step).padStart(5, '0')}${estimated ? '.estimates.json' : '.safetensors'}`;
}

function writeEstimates(path: string, run: string, step: number, metadata: object, estimates: object): void {
  writeFileSync(`${path}.tmp`, `${JSON.stringify({ step, run, metadata, ...estimates }, null, 1)}\n`);
  renameSync(`${path}.tmp`, path);
}

/** Pairs, tokens a second and the time that is left, at most once a second. */
class Progress {
  readonly #step: number;
  readonly #streams: Streams | undefined;
  readonly #begun = performance.now();
  #planned = 0;
  #pairs = 0;
  #tokens = 0;
  #last = 0;

  constructor(step: number, streams: Streams | undefined) {
    this.#step = step;
    this.#streams = streams;
  }

  plan(pairs: number): void {
    this.#planned = pairs;
  }

  add(pairs: number, tokens: number): void {
    this.#pairs += pairs;
    this.#tokens += tokens;
    const now = performance.now();
    if (now - this.#last < 1000) return;
    this.#last = now;
    void this.#write('\n');
  }

  async end(): Promise<void> {
    await this.#write('\n');
  }

  async #write(end: string): Promise<void> {
    const seconds = (performance.now() - this.#begun) / 1000;
    const left = (seconds / Math.max(1, this.#pairs)) * (this.#planned - this.#pairs);
    const rate = Math.round(this.#tokens / Math.max(seconds, 0.001));
    const line = `step ${this.#step}: ${this.#pairs} of ${this.#planned} pairs, ${rate} tokens/s, ${Math.ceil(left)} s left`;
    await this.#streams?.err.write(line + end);
  }
}
