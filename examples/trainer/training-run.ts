// One training run: settings and a warm start in, step after step out, until its steps are done or it is stopped.

import { tree } from '@jax-js/jax';
import type { FilterResult, StepReport } from 'collapsar';
import { type BoardKind, drawBoards, features, reward } from './grid-task.js';
import { Grpo, type GrpoOptions, groupAdvantages } from './grpo.js';
import type { Weights } from './policy.js';
import { Random } from './random.js';
import { asText } from './reasoning.js';
import { sampleRollouts } from './rollouts.js';
import { Watch } from './watch.js';

export interface RunSettings extends GrpoOptions {
  /** Name of the run. */
  run: string;
  /** Folder of its step files; it must be there. */
  folder: string;
  steps: number;
  seed: number;
  /** Prompts a step, by kind. */
  boards: Readonly<Record<BoardKind, number>>;
  /** Rollouts a prompt. */
  rolloutsPerBoard: number;
  /** Standard deviation of the judge's error. */
  judgeNoise: number;
  /**
   * `off`: train on every prompt. `on`: on those with the most reward variance. `random`: on as many as the filter keeps, but
   * drawn at random; the control that tells whether it matters which.
   */
  filter: 'off' | 'on' | 'random';
  /** The share of all reward variance that the kept prompts have. */
  filterShare: number;
  /** Look at the reasoning at step 1 and every so many steps. */
  watchEvery: number;
  /** Go on where the monitor would have it end. */
  keepGoing: boolean;
}

/** The defaults, under which the run without the filter collapses. docs/guide/trainer.md says what each does to that. */
export const DEFAULTS = {
  steps: 260,
  seed: 1,
  boards: { open: 4, maze: 3, sealed: 9 },
  rolloutsPerBoard: 8,
  judgeNoise: 0.02,
  learningRate: 0.01,
  entropyBonus: 0.2,
  klPenalty: 0.001,
  filterShare: 0.9,
  watchEvery: 5,
} as const;

export interface TrainingStep {
  readonly step: number;
  /** Boards of the step, kept or not. */
  readonly prompts: number;
  /** Share of right moves by kind of board. */
  readonly success: Readonly<Record<BoardKind, number>>;
  /** The first reasoning of the step. */
  readonly reasoning: string;
  readonly report: StepReport<FilterResult>;
  /** Why the run ends here, before its steps are done. */
  readonly ends: string | undefined;
}

/** Trains; a step is computed when it is asked for. Keeps the warm start. */
export async function* train(warmStart: Weights, settings: RunSettings): AsyncGenerator<TrainingStep, void, undefined> {
  const { run, folder, seed, boards: counts, rolloutsPerBoard, filter, filterShare } = settings;
  const prompts = new Random(seed, 'prompts');
  const words = new Random(seed, 'words');
  const judge = new Random(seed, 'judge');
  const subset = new Random(seed, 'random subset');
  const grpo = new Grpo(tree.ref(warmStart), settings);
  const watch = new Watch({
    run,
    folder,
    everySteps: settings.watchEvery,
    filter: filter === 'off' ? undefined : { strategy: 'top_p', value: filterShare },
    seed,
    metadata: {
      model: 'gru-32',
      environment: `grid 5x5: ${counts.open} open, ${counts.maze} maze, ${counts.sealed} sealed`,
      filter: { off: 'none', on: `top_p ${filterShare}`, random: `as many as top_p ${filterShare}` }[filter],
      entropy_bonus: String(settings.entropyBonus),
      kl_penalty: String(settings.klPenalty),
      judge_noise: String(settings.judgeNoise),
      seed: String(seed),
    },
  });
  try {
    for (let step = 1; step <= settings.steps; step++) {
      const boards = drawBoards(counts, prompts);
      const rows = boards.flatMap((board) => Array.from({ length: rolloutsPerBoard }, () => board));
      const rollouts = await sampleRollouts(grpo.weights, rows.map(features), words);
      const correct = Uint8Array.from(rollouts, ({ move }, row) => (rows[row]?.right.includes(move) ? 1 : 0));
      const rewards = Float32Array.from(correct, (right) => reward(right === 1, settings.judgeNoise, judge));

      const report = await watch.look(step, grpo.weights, { boards, rollouts, rewards, correct });
      const ends = settings.keepGoing ? undefined : reasonToEnd(report);
      const success = { open: Number.NaN, maze: Number.NaN, sealed: Number.NaN };
      for (const kind of ['open', 'maze', 'sealed'] as const) {
        const ofKind = correct.filter((_, row) => rows[row]?.kind === kind);
        success[kind] = ofKind.reduce((sum, right) => sum + right, 0) / ofKind.length;
      }
      yield { step, prompts: boards.length, success, reasoning: asText(rollouts[0]?.reasoning ?? []), report, ends };
      if (ends !== undefined) return;

      if (report.filter?.empty) continue; // nothing to learn from
      const keptBoards = report.filter?.kept.length ?? boards.length;
      const kept =
        filter === 'on' && report.filter !== undefined
          ? report.filter.rowMask
          : randomRows(keptBoards, boards.length, rolloutsPerBoard, subset);
      await grpo.update(rollouts, groupAdvantages(rewards, rolloutsPerBoard), kept);
    }
  } finally {
    grpo.dispose();
    await watch.dispose();
  }
}

/** 1 for every rollout of `count` boards drawn at random: of all rollouts, if they are all the boards. */
function randomRows(count: number, boards: number, rolloutsPerBoard: number, random: Random): Uint8Array {
  const drawn = new Set<number>();
  while (drawn.size < count) drawn.add(random.below(boards));
  return Uint8Array.from({ length: boards * rolloutsPerBoard }, (_, row) =>
    drawn.has(Math.floor(row / rolloutsPerBoard)) ? 1 : 0,
  );
}

/** An early stop, or a verdict as grave as they come. */
function reasonToEnd({ stop, judgement }: StepReport): string | undefined {
  return stop?.sentence ?? judgement?.verdicts.find(({ severity }) => severity === 'critical')?.sentence;
}
