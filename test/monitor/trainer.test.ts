// The example trainer: its gradients, its forward pass against plain loops, its task, and short runs from end to end.
import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { grad, jit, numpy as np, tree } from '@jax-js/jax';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { readArguments, UsageError } from '../../examples/trainer/arguments.js';
import { CrossScorer } from '../../examples/trainer/cross-scores.js';
import {
  type BoardKind,
  column,
  drawBoard,
  drawBoards,
  FEATURES,
  features,
  MOVES,
  promptTokens,
  rightMoves,
  row,
  SIZE,
} from '../../examples/trainer/grid-task.js';
import { type Batch, groupAdvantages, grpoLoss } from '../../examples/trainer/grpo.js';
import { encode, initialWeights, openDevice, POSITIONS, type Weights } from '../../examples/trainer/policy.js';
import { Random } from '../../examples/trainer/random.js';
import { demonstrate, END, MOST_WORDS, START, WORDS } from '../../examples/trainer/reasoning.js';
import { type Rollout, sampleRollouts } from '../../examples/trainer/rollouts.js';
import { DEFAULTS, type RunSettings, type TrainingStep, train } from '../../examples/trainer/training-run.js';
import { warmStart } from '../../examples/trainer/warm-start.js';
import { readStepFile } from '../../src/exports/logs.js';
import { analyze, openEngine } from '../../src/index.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const folder = temporaryDirectory();
beforeAll(openDevice);

const kinds: readonly BoardKind[] = ['open', 'maze', 'sealed'];

async function someRollouts(weights: Weights, count: number, seed: number): Promise<Rollout[]> {
  const random = new Random(seed, 'test');
  const boards = Array.from({ length: count }, (_, at) => features(drawBoard(kinds[at % 3] as BoardKind, random)));
  return sampleRollouts(weights, boards, random);
}

type Plain = Record<keyof Weights, { data: Float64Array; columns: number }>;

async function plainWeights(weights: Weights): Promise<Plain> {
  const entries = Object.entries(weights).map(async ([name, array]) => {
    const data = Float64Array.from(await (array.ref as np.Array).data());
    return [name, { data, columns: array.shape[1] as number }];
  });
  return Object.fromEntries(await Promise.all(entries)) as Plain;
}

/** The network of policy.ts in plain loops and float64: log-probs of words and moves after each word read. */
function plainForward(weights: Plain, board: ArrayLike<number>, inputs: readonly number[]) {
  const times = (vector: ArrayLike<number>, name: keyof Weights): number[] => {
    const { data, columns } = weights[name];
    return Array.from({ length: columns }, (_, to) =>
      Array.from(vector).reduce((sum, value, from) => sum + value * (data[from * columns + to] as number), 0),
    );
  };
  const logSoftmax = (logits: number[]): number[] => {
    const most = Math.max(...logits);
    const total = most + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0));
    return logits.map((logit) => logit - total);
  };
  const seen = times(board, 'see').map(Math.tanh);
  const [seenUpdate, seenState] = [times(seen, 'seeUpdate'), times(seen, 'seeState')];
  let state = seen;
  return inputs.map((read) => {
    const { data, columns } = weights.word;
    const word = data.subarray(read * columns, (read + 1) * columns);
    const [wordUpdate, wordState] = [times(word, 'wordUpdate'), times(word, 'wordState')];
    const [stateUpdate, stateState] = [times(state, 'stateUpdate'), times(state, 'stateState')];
    state = state.map((before, at) => {
      const update = (seenUpdate[at] as number) + (wordUpdate[at] as number) + (stateUpdate[at] as number);
      const candidate = (seenState[at] as number) + (wordState[at] as number) + (stateState[at] as number);
      return before + (Math.tanh(candidate) - before) / (1 + Math.exp(-update));
    });
    return { words: logSoftmax(times(state, 'speak')), moves: logSoftmax(times(state, 'act')) };
  });
}

describe('gradients', () => {
  const loss = jit((weights: Weights, batch: Batch) => grpoLoss(weights, batch, 0.3, 0.2));
  const gradientOf = jit(grad((weights: Weights, batch: Batch) => grpoLoss(weights, batch, 0.3, 0.2)));

  it('agree with finite differences of the GRPO loss, for every weight matrix', async () => {
    const weights = initialWeights(new Random(3, 'weights'));
    const rollouts = await someRollouts(weights, 12, 4);
    const random = new Random(5, 'advantages');
    const encoded = encode(rollouts);
    const batch: Batch = {
      ...encoded,
      advantages: np.array(Float32Array.from(rollouts, () => random.normal())),
      kept: np.array(Float32Array.from(rollouts, (_, at) => (at % 4 === 0 ? 0 : 1))),
      reference: np
        .array(Float32Array.from({ length: POSITIONS * rollouts.length }, () => -random.uniform()))
        .reshape([POSITIONS, rollouts.length]),
    };
    const gradients = gradientOf(tree.ref(weights), tree.ref(batch));
    const lossAt = async (at: Weights): Promise<number> => (await loss(at, tree.ref(batch)).data())[0] as number;

    for (const name of Object.keys(weights) as (keyof Weights)[]) {
      const gradient = Float32Array.from(await gradients[name].ref.data());
      const length = Math.hypot(...gradient);
      expect(length, name).toBeGreaterThan(1e-4);
      // Along the gradient the slope is its length; along a random direction, the product of the two.
      const sideways = Float32Array.from(gradient, () => random.normal());
      const sidewaysLength = Math.hypot(...sideways);
      const directions = [
        { direction: gradient.map((value) => value / length), slope: length },
        {
          direction: sideways.map((value) => value / sidewaysLength),
          slope: sideways.reduce((sum, value, at) => sum + (value * (gradient[at] as number)) / sidewaysLength, 0),
        },
      ];
      for (const { direction, slope } of directions) {
        const step = 0.02; // float32: smaller ones drown in rounding, larger ones in curvature
        const moved = (by: number): Weights => ({
          ...tree.ref(weights),
          [name]: weights[name].ref.add(np.array(direction.map((d) => by * d)).reshape(weights[name].shape)),
        });
        const measured = ((await lossAt(moved(step))) - (await lossAt(moved(-step)))) / (2 * step);
        expect(Math.abs(measured - slope), name).toBeLessThan(0.01 * length + 2e-5);
      }
    }
  });

  it('of a loss that is GRPO: advantage times log p, entropy bonus, k3, a mean over the kept tokens', async () => {
    const weights = initialWeights(new Random(3, 'weights'));
    const plain = await plainWeights(weights);
    const rollouts = await someRollouts(weights, 12, 6);
    const advantages = Float32Array.from(rollouts, (_, at) => at / 4 - 1);
    const kept = Float32Array.from(rollouts, (_, at) => (at % 3 === 0 ? 0 : 1));
    const referenceLogprob = -1.5;
    const reference = np.full([POSITIONS, rollouts.length], referenceLogprob);
    const batch: Batch = { ...encode(rollouts), advantages: np.array(advantages), kept: np.array(kept), reference };
    const [measured] = await loss(tree.ref(weights), batch).data();

    let [sum, tokens] = [0, 0];
    for (const [at, { board, reasoning, move }] of rollouts.entries()) {
      if (kept[at] === 0) continue;
      const inputs = [START, ...reasoning, END];
      const predictions = plainForward(plain, board, inputs);
      const choices = inputs.slice(1, MOST_WORDS + 1).map((word, t) => ({ from: predictions[t]?.words, taken: word }));
      choices.push({ from: predictions.at(-1)?.moves, taken: move });
      for (const { from, taken } of choices) {
        const logprobs = from as number[];
        const logprob = logprobs[taken] as number;
        const entropy = -logprobs.reduce((total, value) => total + Math.exp(value) * value, 0);
        const difference = referenceLogprob - logprob;
        sum += -(advantages[at] as number) * logprob - 0.3 * entropy + 0.2 * (Math.exp(difference) - difference - 1);
        tokens++;
      }
    }
    expect(measured).toBeCloseTo(sum / tokens, 4);
  });

  it('take nothing from a rollout that the filter dropped', async () => {
    const weights = initialWeights(new Random(3, 'weights'));
    const rollouts = await someRollouts(weights, 12, 1);
    const others = await someRollouts(weights, 12, 2);
    const swapped = rollouts.map((rollout, at) => (at === 2 ? (others[0] as Rollout) : rollout));
    const read = async (of: readonly Rollout[], kept: number[]): Promise<number[]> => {
      const batch: Batch = {
        ...encode(of),
        advantages: np.array(Float32Array.from(of, (_, at) => at - 4)),
        kept: np.array(Float32Array.from(kept)),
        reference: np.zeros([POSITIONS, of.length]),
      };
      return [...(await gradientOf(tree.ref(weights), batch).speak.data())];
    };
    const all = rollouts.map(() => 1);
    const without = all.with(2, 0);
    expect(await read(swapped, without)).toEqual(await read(rollouts, without));
    expect(await read(swapped, all)).not.toEqual(await read(rollouts, all));
  });

  it('advantages have mean 0 and spread 1 in each group, and are 0 where all rewards are equal', () => {
    const reward = fc.integer({ min: -5, max: 5 });
    fc.assert(
      fc.property(
        fc.array(reward, { minLength: 4, maxLength: 4 }),
        fc.array(reward, { minLength: 4, maxLength: 4 }),
        (a, b) => {
          const advantages = groupAdvantages([...a, ...b], 4);
          for (const [at, rewards] of [a, b].entries()) {
            const group = [...advantages.subarray(4 * at, 4 * at + 4)];
            const square = group.reduce((sum, value) => sum + value ** 2, 0) / 4;
            expect(group.reduce((sum, value) => sum + value, 0)).toBeCloseTo(0, 5);
            expect(square).toBeCloseTo(new Set(rewards).size === 1 ? 0 : 1, 4);
          }
        },
      ),
    );
  });
});

describe('policy', () => {
  it('cross-scores and entropies are those of the network in plain loops', async () => {
    const weights = initialWeights(new Random(8, 'weights'));
    const rollouts = await someRollouts(weights, 9, 9);
    const plain = await plainWeights(weights);
    const scorer = new CrossScorer(weights, rollouts);
    const boards = [0, 1, 2].map((at) => (rollouts[at] as Rollout).board);
    for (const board of boards) {
      const scores = await scorer.under(board);
      for (const [at, { reasoning }] of rollouts.entries()) {
        const predictions = plainForward(plain, board, [START, ...reasoning]);
        for (const [t, word] of reasoning.entries()) {
          expect(scores[at * MOST_WORDS + t]).toBeCloseTo(predictions[t]?.words[word] as number, 4);
        }
      }
    }
    const entropies = await scorer.entropies();
    scorer.dispose();
    for (const [at, { board, reasoning }] of rollouts.entries()) {
      const predictions = plainForward(plain, board, [START, ...reasoning]);
      for (const t of reasoning.keys()) {
        const words = predictions[t]?.words as number[];
        const entropy = -words.reduce((sum, logprob) => sum + Math.exp(logprob) * logprob, 0);
        expect(entropies[at * MOST_WORDS + t]).toBeCloseTo(entropy, 4);
      }
    }
  });

  it('samples words and moves as often as its probabilities say', async () => {
    const weights = initialWeights(new Random(8, 'weights'));
    const board = features(drawBoard('open', new Random(1, 'board')));
    const draws = 4000;
    const rollouts = await sampleRollouts(weights, new Array<Float32Array>(draws).fill(board), new Random(2, 'words'));
    const plain = await plainWeights(weights);
    const first = plainForward(plain, board, [START])[0]?.words as number[];
    for (const [word, logprob] of first.entries()) {
      const share = Math.exp(logprob);
      const seen = rollouts.filter(({ reasoning, ended }) =>
        word === END ? ended && reasoning.length === 0 : reasoning[0] === word,
      ).length;
      expect(Math.abs(seen / draws - share)).toBeLessThan(5 * Math.sqrt((share * (1 - share)) / draws) + 1e-4);
    }
    for (const { reasoning, move, ended } of rollouts) {
      expect(reasoning.length).toBeLessThanOrEqual(MOST_WORDS);
      expect(reasoning.every((word) => word !== END && word < WORDS.length)).toBe(true);
      expect(ended || reasoning.length === MOST_WORDS).toBe(true);
      expect(move).toBeGreaterThanOrEqual(0);
      expect(move).toBeLessThan(MOVES.length);
    }
  });

  it('learns its demonstrations in the warm start', async () => {
    const losses: number[] = [];
    const weights = initialWeights(new Random(1, 'weights'));
    tree.dispose(await warmStart(weights, 20, new Random(1, 'warm start'), (_, loss) => losses.push(loss)));
    expect(losses).toHaveLength(20);
    expect(losses[19]).toBeLessThan(0.7 * (losses[0] as number));
  });
});

describe('grid task', () => {
  /** Shortest way by trying all: breadth first over whole paths' ends. */
  function shortest(from: number, goal: number, holes: readonly number[]): number {
    let reached = new Set([from]);
    for (let steps = 0; steps < SIZE * SIZE; steps++) {
      if (reached.has(goal)) return steps;
      const next = new Set(reached);
      for (const cell of reached) {
        for (let to = 0; to < SIZE * SIZE; to++) {
          if (Math.abs(row(to) - row(cell)) + Math.abs(column(to) - column(cell)) === 1 && !holes.includes(to))
            next.add(to);
        }
      }
      reached = next;
    }
    return Number.POSITIVE_INFINITY;
  }

  it('a move is right exactly if it brings the goal nearer', () => {
    fc.assert(
      fc.property(fc.constantFrom(...kinds), fc.integer({ min: 0, max: 1e6 }), (kind, seed) => {
        const { agent, goal, holes, right } = drawBoard(kind, new Random(seed, 'board'));
        const here = shortest(agent, goal, holes);
        const steps = [
          [-1, 0],
          [1, 0],
          [0, -1],
          [0, 1],
        ] as const;
        const nearer = steps.flatMap(([down, east], move) => {
          const [r, c] = [row(agent) + down, column(agent) + east];
          const cell = r * SIZE + c;
          if (r < 0 || r >= SIZE || c < 0 || c >= SIZE || holes.includes(cell)) return [];
          return Number.isFinite(here) && shortest(cell, goal, holes) === here - 1 ? [move] : [];
        });
        expect(right).toEqual(nearer);
        expect(right.length > 0).toBe(kind !== 'sealed');
        if (kind === 'maze') expect(rightMoves(agent, goal, []).some((move) => !right.includes(move))).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  it('one step has as many boards of each kind as asked for, all different to the policy', () => {
    for (let seed = 0; seed < 20; seed++) {
      const boards = drawBoards({ open: 4, maze: 3, sealed: 9 }, new Random(seed, 'prompts'));
      expect(kinds.map((kind) => boards.filter((board) => board.kind === kind).length)).toEqual([4, 3, 9]);
      expect(new Set(boards.map((board) => promptTokens(board).join())).size).toBe(16);
      expect(new Set(boards.map((board) => features(board).join())).size).toBe(16);
      for (const board of boards) expect(features(board)).toHaveLength(FEATURES);
    }
  });

  it('demonstrations say the move that they end in, and are right on open boards', () => {
    for (let seed = 0; seed < 100; seed++) {
      const random = new Random(seed, 'board');
      const board = drawBoard('open', random);
      const { reasoning, move } = demonstrate(board, random);
      expect(board.right).toContain(move);
      expect(WORDS[reasoning.at(-1) as number]).toBe(MOVES[move]);
      expect(reasoning.length).toBeLessThanOrEqual(MOST_WORDS);
    }
  });
});

describe('random numbers', () => {
  it('differ by seed and by stream, and come again', () => {
    const draws = (seed: number, stream: string): string => {
      const random = new Random(seed, stream);
      return [1, 2, 3].map(() => random.uniform()).join();
    };
    const all = [0, 1, 2, 3, 12, 123].flatMap((seed) => ['a', 'b', '2/a'].map((stream) => draws(seed, stream)));
    expect(new Set(all).size).toBe(all.length);
    expect(draws(1, 'a')).toBe(draws(1, 'a'));
  });
});

describe('a short run', () => {
  const steps = 4;

  /** A run of a few steps from a short warm start, its step files in a folder of their own. */
  async function shortRun(name: string, changes: Partial<RunSettings> = {}) {
    const seed = changes.seed ?? 7;
    const runFolder = await mkdtemp(join(folder, `${name}-`));
    const weights = await warmStart(initialWeights(new Random(seed, 'weights')), 8, new Random(seed, 'warm start'));
    const settings = { ...DEFAULTS, run: 'short', folder: runFolder, steps, seed, watchEvery: 2, keepGoing: false };
    const told: TrainingStep[] = [];
    for await (const step of train(weights, { ...settings, filter: 'off', ...changes })) told.push(step);
    tree.dispose(weights);
    return { told, runFolder };
  }

  async function contents(runFolder: string): Promise<Record<string, string>> {
    const names = (await readdir(runFolder)).sort();
    const files = await Promise.all(names.map((name) => readFile(join(runFolder, name), 'base64')));
    return Object.fromEntries(names.map((name, at) => [name, files[at] as string]));
  }

  it('writes step files from which analyze gets what the monitor reported', async () => {
    const { told, runFolder } = await shortRun('analyzed', { filter: 'on' });
    expect(told.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
    expect(told.map(({ report }) => report.due)).toEqual([true, true, true, true]);
    for (const { report, prompts } of told) {
      expect(report.filter?.kept.length).toBeGreaterThan(0);
      expect(report.filter?.kept.length).toBeLessThan(prompts);
    }
    await using engine = await openEngine();
    const analyzed: {
      step: number;
      mi: number | undefined;
      kept: readonly (number | bigint | string)[] | undefined;
    }[] = [];
    for await (const { step, samples, filter } of analyze([runFolder], { engine })) {
      analyzed.push({ step, mi: samples[0]?.values.mi_seq_estimate, kept: filter?.kept });
    }
    const reported = told.flatMap(({ step, report }) =>
      report.due ? [{ step, mi: report.stepMetrics?.values.mi_seq_estimate, kept: report.filter?.kept }] : [],
    );
    expect(analyzed).toEqual(reported);
    expect(analyzed).toHaveLength(4);
    for (const { mi } of analyzed) expect(mi).toBeGreaterThan(0);
  });

  it('is the same again with the same seed, and another with another', async () => {
    const first = await contents((await shortRun('first')).runFolder);
    expect(Object.keys(first)).toEqual([1, 2, 3, 4].map((step) => `step_0000${step}.safetensors`));
    expect(await contents((await shortRun('again')).runFolder)).toEqual(first);
    const other = await contents((await shortRun('other', { seed: 8 })).runFolder);
    for (const name of Object.keys(first)) expect(other[name]).not.toBe(first[name]);
  });

  it('is another with the filter, and another with as many prompts drawn at random', async () => {
    const last = 'step_00004.safetensors';
    const runs = await Promise.all(
      (['off', 'on', 'random'] as const).map(async (filter) => (await shortRun(filter, { filter })).runFolder),
    );
    const steps = await Promise.all(runs.map(async (runFolder) => readStepFile(join(runFolder, last))));
    const words = steps.map((step) => step.responseIds?.data.join());
    expect(new Set(words).size).toBe(3);
    const prompts = steps.map((step) => step.prompts?.map((prompt) => prompt.join()).join(' '));
    expect(new Set(prompts).size).toBe(1);
  });

  it('is not changed by being watched more often', async () => {
    const seldom = await contents((await shortRun('seldom', { watchEvery: 4 })).runFolder);
    const often = await contents((await shortRun('often', { watchEvery: 1 })).runFolder);
    expect(seldom['step_00004.safetensors']).toBe(often['step_00004.safetensors']);
  });
});

describe('arguments', () => {
  it('have defaults, and are read', () => {
    expect(readArguments([])).toMatchObject({ filters: ['off', 'on'], steps: DEFAULTS.steps, keepGoing: false });
    const given = readArguments(['--filter', 'on', '--steps', '12', '--noise', '.5', '--keep-going', '--out', 'there']);
    expect(given).toMatchObject({ filters: ['on'], steps: 12, judgeNoise: 0.5, keepGoing: true, out: 'there' });
  });

  it.each([
    [['--filter', 'maybe'], '--filter maybe: expected off, on, both or random'],
    [['--steps', '0'], '--steps 0: expected a whole number from 1'],
    [['--steps', '2.5'], '--steps 2.5: expected a whole number from 1'],
    [['--share', '1.5'], '--share 1.5: expected a number from 0.01 to 1'],
    [['--seed', 'x'], '--seed x: expected a whole number from 0'],
    [['--unknown'], "Unknown option '--unknown'"],
    [['stray'], "Unexpected argument 'stray'"],
  ])('%j is refused with what to write instead', (words, problem) => {
    expect(() => readArguments(words)).toThrow(UsageError);
    expect(() => readArguments(words)).toThrow(problem);
  });
});
