// The command: a warm start, then GRPO from it without and with the variance filter, each watched by a Monitor; step files for
// `collapsar analyze`. docs/guide/trainer.md explains what it prints.
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { tree } from '@jax-js/jax';
import { type Arguments, readArguments, USAGE, UsageError } from './arguments.js';
import { initialWeights, openDevice, type Weights } from './policy.js';
import { Progress } from './progress.js';
import { Random } from './random.js';
import { RunStory } from './run-story.js';
import { DEFAULTS, type RunSettings, train } from './training-run.js';
import { WARM_START_STEPS, warmStart } from './warm-start.js';

const LINE_EVERY = 20;
const RUNS = {
  off: { run: 'unfiltered', trainsOn: 'every prompt' },
  on: { run: 'filtered', trainsOn: 'the prompts with most of the reward variance' },
  random: { run: 'random', trainsOn: 'as many prompts as the filter keeps, drawn at random' },
};

async function main(options: Arguments): Promise<void> {
  const { filters, steps, seed, out } = options;
  await openDevice();
  const progress = new Progress(process.stderr, WARM_START_STEPS + steps * filters.length);
  const say = (line: string): void => {
    progress.clear();
    console.log(line);
  };

  const weights = await warmStart(
    initialWeights(new Random(seed, 'weights')),
    WARM_START_STEPS,
    new Random(seed, 'warm start'),
    (step) => progress.update(step, 'warm start'),
  );
  const ends: string[] = [];
  for (const [at, filter] of filters.entries()) {
    const before = WARM_START_STEPS + at * steps;
    ends.push(
      await trainOne(filter, weights, options, say, (step) => progress.update(before + step, RUNS[filter].run)),
    );
  }
  tree.dispose(weights);
  say(`\n${ends.join('\n')}\n\nThe step files, read again:  npx collapsar analyze ${out}`);
}

async function trainOne(
  filter: RunSettings['filter'],
  weights: Weights,
  { steps, seed, watchEvery, entropyBonus, klPenalty, judgeNoise, filterShare, keepGoing, out }: Arguments,
  say: (line: string) => void,
  onStep: (step: number) => void,
): Promise<string> {
  const { run, trainsOn } = RUNS[filter];
  const folder = join(out, run);
  await mkdir(folder, { recursive: true });
  // Step files of an older, longer run would follow those of this one.
  const older = (await readdir(folder)).filter((name) => /^step_\d+\.safetensors$/.test(name));
  await Promise.all(older.map((name) => rm(join(folder, name))));
  const story = new RunStory(LINE_EVERY);
  say(`\n${run}: trains on ${trainsOn}`);
  say(story.head);
  const settings = {
    ...DEFAULTS,
    run,
    folder,
    steps,
    seed,
    watchEvery,
    entropyBonus,
    klPenalty,
    judgeNoise,
    filter,
    filterShare,
  };
  let last = 0;
  for await (const step of train(weights, { ...settings, keepGoing })) {
    for (const line of story.tell(step)) say(line);
    onStep(step.step);
    if (step.ends !== undefined) return `${run}: ended by the monitor at step ${step.step}`;
    last = step.step;
  }
  return `${run}: trained all ${last} steps`;
}

try {
  const options = readArguments(process.argv.slice(2));
  if (options.help) process.stdout.write(USAGE);
  else await main(options);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`${error.message}\n\n${USAGE}`);
  process.exitCode = 2;
}
