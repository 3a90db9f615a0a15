// A step's scores in blocks: the same report as from the whole, by every door; sources and sinks with backpressure,
// which end, abort and fail as a whole; the listing of docs/guide/monitor.md.
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import ts from 'typescript';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  ArgumentError,
  type Engine,
  Monitor,
  type MonitorInput,
  type MonitorOptions,
  type MonitorStep,
  openEngine,
  type SamplerOptions,
  type ScoreBlock,
} from '../../src/index.js';
import type { StepReport } from '../../src/step/step-report.js';
import { type BoxOfStep, blockOf, type Layout, layouts, partition, type WholeStep } from '../engine/token-blocks.js';
import { columnOf, type SmallStep, scorePrompts, smallStep } from './monitor-run.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
});
afterAll(() => engine.dispose());
afterEach(() => {
  vi.restoreAllMocks();
});

const plainLayout: Layout = { order: [2, 1, 0], gap: 0, skip: 0 };
const nothing = { pairs: 0, tokens: 0, bytes: 0 };

const monitorOf = (options: MonitorOptions = {}) => new Monitor({ engine, permutations: 9, everySteps: 2, ...options });
const open = (small: SmallStep, options: MonitorOptions = {}): MonitorStep => monitorOf(options).step(1, small.labels);
const metricsOf = async (step: MonitorStep) => JSON.stringify((await step.finish()).stepMetrics);

const wholeOf = ({ logprobs, labels }: SmallStep): WholeStep => ({
  dtype: 'float32',
  prompts: logprobs.shape[0],
  lengths: Array.from(labels.lengths as Int32Array),
  data: logprobs.data,
  tokens: logprobs.shape[2],
});

const block = (small: SmallStep, box: Partial<BoxOfStep>, layout = plainLayout): ScoreBlock => {
  const [P, R, T] = small.logprobs.shape;
  const all = { prompts: [...Array(P).keys()], rows: [...Array(R).keys()], from: 0, to: T };
  return blockOf(wholeOf(small), { ...all, ...box }, layout);
};

/** A step in blocks of one token of all pairs each. */
const byToken = (small: SmallStep): ScoreBlock[] =>
  Array.from({ length: small.logprobs.shape[2] }, (_, t) => block(small, { from: t, to: t + 1 }));

const byPrompt = (small: SmallStep): ScoreBlock[] =>
  Array.from({ length: small.logprobs.shape[0] }, (_, prompt) => block(small, { prompts: [prompt] }));

/** Blocks one at a time; `asked` counts them, `closed` says that the reader left or the end was reached. */
function producer(blocks: readonly ScoreBlock[]) {
  const seen = { asked: 0, closed: false };
  async function* produce(): AsyncGenerator<ScoreBlock> {
    try {
      for (const each of blocks) {
        seen.asked++;
        yield each;
      }
    } finally {
      seen.closed = true;
    }
  }
  return { seen, blocks: produce() };
}

/** Holds every block that the engine sums until `release()` lets one more go. */
function slowEngine() {
  const waiting: (() => void)[] = [];
  const { jobs } = engine.blocks;
  const run = jobs.run.bind(jobs) as typeof jobs.run;
  vi.spyOn(jobs, 'run').mockImplementation((async (...[operation, options, ...rest]: Parameters<typeof jobs.run>) => {
    if (operation === 'add') {
      await new Promise<void>((resolve, reject) => {
        waiting.push(resolve);
        options.signal?.addEventListener('abort', () => reject(options.signal?.reason), { once: true });
      });
    }
    return run(operation, options, ...rest);
  }) as typeof jobs.run);
  return { waiting, release: () => waiting.shift()?.() };
}

/** Waits until what has to happen has happened, however busy the machine is. */
const soon = (check: () => void) => vi.waitFor(check, { timeout: 5000, interval: 2 });

/** Waits for what must not happen. */
const settle = () => sleep(15);

/** Waits until the engine holds a sum, and then whether anything goes on in spite of it. */
async function held(waiting: readonly unknown[]): Promise<void> {
  await soon(() => expect(waiting.length).toBeGreaterThan(0));
  await settle();
}

async function refused(work: Promise<unknown>, argument: string, words: string): Promise<void> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ArgumentError);
  expect((error as ArgumentError).argument).toBe(argument);
  expect((error as ArgumentError).message).toContain(words);
}

describe('blocks of a step', () => {
  it('give the report of the whole, by every door and in any order', async () => {
    const cases = fc.record({
      seed: fc.nat(),
      prompts: fc.integer({ min: 2, max: 5 }),
      responses: fc.integer({ min: 1, max: 3 }),
      tokens: fc.integer({ min: 1, max: 9 }),
      profile: fc.constantFrom('strict' as const, 'ragen' as const),
      cuts: fc.nat(20),
      picks: fc.infiniteStream(fc.nat()),
      layout: fc.infiniteStream(layouts),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ seed, prompts, responses, tokens, profile, cuts, picks, layout }) => {
        const small = smallStep(seed, { prompts, responses, tokens });
        const plain = open(small, { profile });
        await plain.scoreAll({ logprobs: small.logprobs });
        const wanted = await metricsOf(plain);

        const pick = () => picks.next().value as number;
        const blocks = partition(wholeOf(small), cuts, pick).map((box) => block(small, box, layout.next().value));
        const step = open(small, { profile });
        const begun: Promise<void>[] = [];
        while (blocks.length > 0) {
          const some = blocks.splice(0, 1 + (pick() % 4));
          const door = pick() % 4;
          if (door === 0) for (const each of some) begun.push(step.scoreBlock(each));
          else if (door === 1) begun.push(step.scoreBlocks(some));
          else if (door === 2) begun.push(step.scoreBlocks(ReadableStream.from(some)));
          else begun.push(ReadableStream.from(some).pipeTo(step.writable()));
        }
        await Promise.all(begun);
        expect(await metricsOf(step)).toBe(wanted);
        expect(step.held).toEqual(nothing);
      }),
      { numRuns: 60 },
    );
  });

  it('mix with whole prompts, whole rows and sums', async () => {
    const small = smallStep(3, { prompts: 4, responses: 3, tokens: 6 });
    const plain = open(small);
    await scorePrompts(plain, small);
    const wanted = await metricsOf(plain);
    const [, R] = small.logprobs.shape;
    const { sums } = await engine.sumTokens(small.logprobs, small.labels.lengths);
    const step = open(small);
    await step.score(2, columnOf(small, 2));
    const others = [3, 0, 1];
    await step.scoreBlock(block(small, { prompts: others, rows: [4, 0], from: 2 }));
    await step.scoreBlock({
      prompts: [1, 3],
      rows: { from: 6 },
      sums: { ...sums, data: sums.data.subarray(25), shape: [R - 6, 2], strides: [4, 2] },
    });
    await step.scoreBlock({
      prompts: [0],
      rows: { from: 6 },
      sums: { ...sums, data: sums.data.subarray(24), shape: [R - 6, 1], strides: [4, 1] },
    });
    await step.scoreBlock(block(small, { prompts: others, rows: [4, 0], to: 2 }));
    const { tokens: _, ...whole } = block(small, { prompts: others, rows: [1, 2, 3, 5] });
    await step.scoreBlock(whole);
    expect(await metricsOf(step)).toBe(wanted);

    const rows = open(small);
    const half = block(small, { rows: [6, 7, 8, 9, 10, 11] });
    await rows.scoreRows({ from: 6 }, { logprobs: half.logprobs });
    await rows.scoreRows([3, 1, 5], { logprobs: block(small, { rows: [3, 1, 5] }).logprobs });
    await rows.scoreRows([4, 2, 0], {
      sums: {
        ...sums,
        data: Float64Array.from([4, 2, 0].flatMap((row) => [...sums.data.subarray(4 * row, 4 * row + 4)])),
        shape: [3, 4],
      },
    });
    expect(await metricsOf(rows)).toBe(wanted);
  });

  it('need be of the wanted pairs only', async () => {
    const small = smallStep(13, { prompts: 8, responses: 4, turns: true });
    const sampler: SamplerOptions = { kind: 'turn', n: 5 };
    for (const options of [{ sampler }, { negatives: 3 }]) {
      const plain = open(small, options);
      await plain.scoreAll({ logprobs: small.logprobs });
      const step = open(small, options);
      for (const from of [2, 0]) {
        for (const { prompt, rows } of step.pairs().byPrompt) {
          await step.scoreBlock(block(small, { prompts: [prompt], rows: [...rows], from, to: from + 2 }));
        }
      }
      expect(await metricsOf(step)).toBe(await metricsOf(plain));
    }
  });

  it('are refused by name; the step stays as it was', async () => {
    const small = smallStep(21, { tokens: 6 });
    const step = open(small);
    const long = small.labels.lengths.findIndex((length) => length > 4);
    await step.scoreBlock(block(small, { from: 0, to: 3 }));
    const { held } = step;
    await refused(
      step.scoreBlock(block(small, { prompts: [1], rows: [long], from: 2 })),
      'block',
      `prompt 1, row ${long}, token 2 came before`,
    );
    await refused(step.score(1, columnOf(small, 1)), 'prompt', 'prompt 1 was scored before');
    await refused(step.scoreAll({ logprobs: small.logprobs }), 'prompt', 'prompt 0 was scored before');
    await refused(step.scoreBlock({ ...block(small, {}), sums: small.logprobs }), 'block', 'exactly one of');
    await refused(step.scoreBlock(undefined as unknown as ScoreBlock), 'block', 'exactly one of');
    await refused(step.scoreBlock({ tokens: { from: 0 }, sums: small.logprobs }), 'tokens', 'whole rows');
    expect(step.held).toEqual(held);
    const lacking = small.labels.lengths.filter((length) => length > 3).length;
    const first = small.labels.lengths.findIndex((length) => length > 3);
    await refused(
      step.finish(),
      'scores',
      `4 of 4 prompts were scored in part: 0 (group 0) lacks ${lacking} rows (row ${first}: tokens 3 to`,
    );
    await step.scoreBlock(block(small, { from: 3 }));
    const plain = open(small);
    await scorePrompts(plain, small);
    expect(await metricsOf(step)).toBe(await metricsOf(plain));
    const idle = () => monitorOf({ judge: false }).step(3, small.labels);
    await refused(idle().scoreBlock(block(small, {})), 'prompt', 'step 3 is not due');
    expect(() => idle().writable()).toThrow('step 3 is not due');
    expect(idle().held).toEqual(nothing);
  });

  it('may be given up with the step', async () => {
    const small = smallStep(22);
    const step = open(small);
    await step.scoreBlock(block(small, { from: 0, to: 2 }));
    expect(step.held.pairs).toBeGreaterThan(0);
    slowEngine();
    const running = step.scoreBlock(block(small, { from: 2 }));
    const whole = open(small);
    const scoring = whole.scoreAll({ logprobs: small.logprobs });
    await settle();
    for (const each of [step, whole]) each.abort(new Error('no more'));
    await expect(scoring).rejects.toThrow('no more');
    await expect(running).rejects.toThrow('no more');
    expect(step.held).toEqual(nothing);
    await expect(step.finish()).rejects.toThrow('no more');
  });
});

describe('sinks and sources hold the producer back', () => {
  const small = smallStep(31, { prompts: 6 });

  it('an async iterable: one block is asked for when one is summed', async () => {
    const { waiting, release } = slowEngine();
    const step = open(small);
    const { seen, blocks } = producer(byPrompt(small));
    const scoring = step.scoreBlocks(blocks);
    for (let asked = 1; asked <= 6; asked++) {
      await held(waiting);
      expect([seen.asked, waiting.length]).toEqual([asked, 1]);
      release();
    }
    await scoring;
    expect(seen.closed).toBe(true);
  });

  it('a writer: it is told to wait while a block is summed', async () => {
    const { waiting, release } = slowEngine();
    const writer = open(small).writable().getWriter();
    let ready = 0;
    const writing = (async () => {
      for (const each of byPrompt(small)) {
        await writer.ready;
        ready++;
        void writer.write(each);
      }
      await writer.close();
    })();
    for (let taken = 1; taken <= 6; taken++) {
      await held(waiting);
      expect([ready, waiting.length, writer.desiredSize]).toEqual([taken, 1, 0]);
      release();
    }
    await writing;
  });

  it('a piped stream: no more than one block waits beside the one that is summed', async () => {
    const { waiting, release } = slowEngine();
    const { seen, blocks } = producer(byPrompt(small));
    const piping = ReadableStream.from(blocks).pipeTo(open(small).writable());
    for (let taken = 1; taken <= 6; taken++) {
      await held(waiting);
      expect(waiting.length).toBe(1);
      expect(seen.asked).toBeLessThanOrEqual(taken + 1);
      release();
    }
    await piping;
    expect(seen).toEqual({ asked: 6, closed: true });
  });

  it('so do the blocks of a step in reports() and transform()', async () => {
    for (const through of ['reports', 'transform'] as const) {
      const { waiting, release } = slowEngine();
      const { seen, blocks } = producer(byPrompt(small));
      const inputs: MonitorInput[] = [{ step: 1, labels: small.labels, scores: blocks }];
      const monitor = monitorOf();
      const reports =
        through === 'reports'
          ? monitor.reports(inputs)
          : ReadableStream.from(inputs).pipeThrough(monitor.transform())[Symbol.asyncIterator]();
      await settle();
      expect(seen.asked).toBe(0);
      const reading = reports.next();
      for (let asked = 1; asked <= 6; asked++) {
        await held(waiting);
        expect([seen.asked, waiting.length]).toEqual([asked, 1]);
        release();
      }
      expect(((await reading).value as StepReport).step).toBe(1);
      expect((await reports.next()).done).toBe(true);
      vi.restoreAllMocks();
    }
  });
});

describe('an end before the end', () => {
  const small = smallStep(41, { prompts: 3, tokens: 5 });

  it('of the blocks by their own error: it comes out, what they gave is forgotten, and all may come again', async () => {
    const plain = open(small);
    await scorePrompts(plain, small);
    const wanted = await metricsOf(plain);
    const failing = [
      async function* () {
        yield* byToken(small).slice(0, 2);
        throw new Error('lost');
      },
      () =>
        new ReadableStream<ScoreBlock>({
          start(controller) {
            controller.enqueue(byToken(small)[0] as ScoreBlock);
          },
          pull(controller) {
            controller.error(new Error('lost'));
          },
        }),
    ];
    for (const source of failing) {
      const step = open(small);
      await expect(step.scoreBlocks(source())).rejects.toThrow('lost');
      expect(step.held).toEqual(nothing);
      // Short rows were complete.
      expect(small.labels.lengths).toContain(1);
      await step.scoreBlocks(byToken(small));
      expect(await metricsOf(step)).toBe(wanted);
    }
  });

  it('of the blocks by one that is refused: the source is closed', async () => {
    const [first] = byToken(small) as [ScoreBlock];
    const { seen, blocks } = producer([first, first, first]);
    const step = open(small);
    await expect(step.scoreBlocks(blocks)).rejects.toThrow('came before');
    expect([seen, step.held]).toEqual([{ asked: 2, closed: true }, nothing]);
    let cancelled: unknown;
    const stream = new ReadableStream<ScoreBlock>({
      pull: (controller) => controller.enqueue(first),
      cancel(reason) {
        cancelled = reason;
      },
    });
    const writable = open(small).writable();
    await expect(stream.pipeTo(writable)).rejects.toThrow('came before');
    expect(cancelled).toBeInstanceOf(ArgumentError);
  });

  it('closes the blocks on an abort, also while the producer hangs', async () => {
    for (const kind of ['iterable', 'stream'] as const) {
      const step = open(small);
      const controller = new AbortController();
      let cancelled: unknown;
      async function* hanging(): AsyncGenerator<ScoreBlock> {
        yield byToken(small)[0] as ScoreBlock;
        await new Promise(() => undefined);
      }
      const stream = new ReadableStream<ScoreBlock>({
        start: (output) => output.enqueue(byToken(small)[0] as ScoreBlock),
        pull: () => new Promise(() => undefined),
        cancel(reason) {
          cancelled = reason;
        },
      });
      const scoring = step.scoreBlocks(kind === 'stream' ? stream : hanging(), { signal: controller.signal });
      await soon(() => expect(step.held.pairs).toBeGreaterThan(0));
      const reason = new Error('stop');
      controller.abort(reason);
      await expect(scoring).rejects.toBe(reason);
      expect(step.held).toEqual(nothing);
      if (kind === 'stream') expect(cancelled).toBe(reason);
    }
  });

  it('of the blocks by an abort while one is summed: the stream is told the reason', async () => {
    const { waiting } = slowEngine();
    const controller = new AbortController();
    const reason = new Error('stop');
    let cancelled: unknown;
    const stream = new ReadableStream<ScoreBlock>({
      start: (output) => output.enqueue(byToken(small)[0] as ScoreBlock),
      cancel(why) {
        cancelled = why;
      },
    });
    const scoring = open(small).scoreBlocks(stream, { signal: controller.signal });
    await soon(() => expect(waiting.length).toBeGreaterThan(0));
    controller.abort(reason);
    await expect(scoring).rejects.toBe(reason);
    expect(cancelled).toBe(reason);
  });

  it('closes a writer', async () => {
    const step = open(small);
    const writer = step.writable().getWriter();
    for (const each of byToken(small).slice(0, 3)) await writer.write(each);
    expect(step.held.pairs).toBeGreaterThan(0);
    await writer.abort(new Error('gone'));
    expect(step.held).toEqual(nothing);
    const missing = await step.finish().catch((error: Error) => error.message);
    expect(missing).toContain('3 of 3 prompts were never scored: 0 (group 0)');
  });

  const inputs = (scores: MonitorInput['scores']): MonitorInput[] => [
    { step: 1, labels: small.labels, scores: byToken(small) },
    { step: 2, labels: small.labels, scores },
  ];

  it('of reports(): by an abort and by the blocks’ own error; the monitor is as after the last report', async () => {
    const controller = new AbortController();
    let opened: MonitorStep | undefined;
    async function* hanging(): AsyncGenerator<ScoreBlock> {
      yield byToken(small)[0] as ScoreBlock;
      await new Promise(() => undefined);
    }
    const monitor = monitorOf();
    const reports = monitor.reports(
      inputs((step) => {
        opened = step;
        return hanging();
      }),
      { signal: controller.signal },
    );
    expect((await reports.next()).value?.step).toBe(1);
    const reading = reports.next();
    await soon(() => expect(opened?.held.pairs).toBeGreaterThan(0));
    controller.abort(new Error('stop'));
    await expect(reading).rejects.toThrow('stop');
    expect([opened?.held, monitor.lastStep]).toEqual([nothing, 1]);
    await expect(opened?.finish()).rejects.toThrow('stop');

    const other = monitorOf();
    const { seen, blocks } = producer([...byToken(small), ...byToken(small)]);
    const failing = other.reports(ReadableStream.from(inputs(blocks)));
    await failing.next();
    await expect(failing.next()).rejects.toThrow('came before');
    expect([seen.closed, other.lastStep]).toEqual([true, 1]);
    await expect(other.reports([], { signal: AbortSignal.abort(new Error('never')) }).next()).rejects.toThrow('never');
  });

  it('of a function that scores: an abort does not wait for it', async () => {
    const controller = new AbortController();
    const reports = monitorOf().reports(
      inputs(async () => {
        await new Promise(() => undefined);
      }),
      { signal: controller.signal },
    );
    await reports.next();
    const reading = reports.next();
    await settle();
    controller.abort(new Error('stop'));
    await expect(reading).rejects.toThrow('stop');
  });

  it.each(['cancel of the reader', 'abort of the writer', 'signal'])('ends transform() by the %s', async (how) => {
    let cancelled: unknown;
    const hanging = () =>
      new ReadableStream<ScoreBlock>({
        start: (output) => output.enqueue(byToken(small)[0] as ScoreBlock),
        pull: () => new Promise(() => undefined),
        cancel(reason) {
          cancelled = reason;
        },
      });
    const controller = new AbortController();
    const monitor = monitorOf();
    const { readable, writable } = monitor.transform({ signal: controller.signal });
    const [reader, writer] = [readable.getReader(), writable.getWriter()];
    const writing = inputs(hanging()).map((input) => writer.write(input));
    expect((await reader.read()).value?.step).toBe(1);
    const reading = reader.read();
    await settle();
    const reason = new Error('enough');
    if (how === 'cancel of the reader') {
      await reader.cancel(reason);
      expect(await reading).toEqual({ done: true, value: undefined });
    } else {
      const rejected = expect(reading).rejects.toBe(reason);
      if (how === 'signal') controller.abort(reason);
      else await writer.abort(reason);
      await rejected;
    }
    await writing[0];
    await expect(writing[1]).rejects.toBe(reason);
    await soon(() => expect([cancelled, monitor.lastStep]).toEqual([reason, 1]));
    await expect(writer.closed).rejects.toBe(reason);
  });

  it('of transform(), with a step written that nobody reads', async () => {
    const cancelled: unknown[] = [];
    const unread = new ReadableStream<ScoreBlock>({ cancel: (why) => void cancelled.push(why) });
    const writer = monitorOf().transform().writable.getWriter();
    const writing = writer.write({ step: 1, labels: small.labels, scores: unread });
    await settle();
    const reason = new Error('enough');
    await Promise.all([writer.abort(reason), expect(writing).rejects.toBe(reason)]);
    expect(cancelled).toEqual([reason]);
  });

  it('of a transform whose source fails or closes while the reader waits', async () => {
    const { readable, writable } = monitorOf().transform();
    const reader = readable.getReader();
    const reading = reader.read();
    const writer = writable.getWriter();
    await settle();
    await writer.close();
    expect((await reading).done).toBe(true);
    async function* failing(): AsyncGenerator<MonitorInput> {
      yield { step: 1, labels: small.labels, scores: byToken(small) };
      throw new Error('lost');
    }
    const reports = ReadableStream.from(failing()).pipeThrough(monitorOf().transform()).getReader();
    expect((await reports.read()).value?.step).toBe(1);
    await expect(reports.read()).rejects.toThrow('lost');
  });

  it('cancels a stream of blocks that nobody wants', async () => {
    const cancelled: number[] = [];
    const unwanted = (step: number) => new ReadableStream<ScoreBlock>({ cancel: () => void cancelled.push(step) });
    const monitor = monitorOf({ judge: false });
    const reports = monitor.reports([
      { step: 3, labels: small.labels, scores: unwanted(3) },
      { step: 2, labels: small.labels, scores: unwanted(2) },
    ]);
    expect((await reports.next()).value?.due).toBe(false);
    await expect(reports.next()).rejects.toThrow('after step 3 was finished');
    expect(cancelled).toEqual([3, 2]);
    const misspelt = { step: 4, labels: small.labels, scores: unwanted(4), outcome: {} } as unknown as MonitorInput;
    await expect(monitor.reports([misspelt]).next()).rejects.toThrow('input.outcome');
    expect(cancelled).toEqual([3, 2, 4]);
  });

  it('cancels a stream of blocks that a function gives after the abort', async () => {
    const controller = new AbortController();
    let cancelled: unknown;
    let give: (blocks: ReadableStream<ScoreBlock>) => void = () => undefined;
    const waiting = new Promise<ReadableStream<ScoreBlock>>((resolve) => {
      give = resolve;
    });
    const reports = monitorOf().reports(
      inputs(() => waiting),
      { signal: controller.signal },
    );
    await reports.next();
    const reading = reports.next();
    await settle();
    const reason = new Error('stop');
    controller.abort(reason);
    await expect(reading).rejects.toBe(reason);
    const cancel = (why: unknown): void => {
      cancelled = why;
    };
    give(new ReadableStream<ScoreBlock>({ cancel }));
    await soon(() => expect(cancelled).toBe(reason));
  });
});

describe('docs/guide/monitor.md', () => {
  it('has a listing of streaming that runs and gives the report of the whole', async () => {
    const page = await readFile(new URL('../../docs/guide/monitor.md', import.meta.url), 'utf8');
    const listing = /<!-- tested: streaming -->\n```ts\n([\s\S]*?)```/.exec(page)?.[1];
    if (listing === undefined) throw new Error('docs/guide/monitor.md has no listing marked as tested: streaming');
    // The listing's own names are what a trainer has; its import is the package.
    const code = listing.replace(/^import .* from 'collapsar';\n/m, '');
    expect(code).not.toContain('import ');
    const run = new Function(
      'Monitor',
      'trainer',
      'console',
      `return (async () => {${ts.transpileModule(code, { compilerOptions: { target: ts.ScriptTarget.ES2022 } }).outputText}})()`,
    );
    const steps = [1, 2, 3, 4, 5].map((n) => smallStep(n, { tokens: 6 }));
    const logged: [number, unknown][] = [];
    const trainer = {
      steps: 5,
      log: (n: number, metrics: unknown) => void logged.push([n, metrics]),
      async rollout(n: number) {
        const { labels, outcomes } = steps[n - 1] as SmallStep;
        return { n, promptOfRow: labels.groups, reasoningLengths: labels.lengths, rewards: outcomes.rewards };
      },
      /** A scorer that gives all prompts of some rows, some tokens at a time. */
      async *scoreInBlocks({ n }: { n: number }): AsyncGenerator<object> {
        const small = steps[n - 1] as SmallStep;
        for (const from of [0, 2, 4]) {
          for (const rows of [
            [6, 7, 8, 9, 10, 11],
            [0, 1, 2, 3, 4, 5],
          ]) {
            const { prompts: _, ...part } = block(small, { rows, from, to: from + 2 });
            yield part;
          }
        }
      },
      blocksOf(n: number) {
        return ReadableStream.from(this.scoreInBlocks({ n }));
      },
    };
    await run(Monitor, trainer, console);
    const monitor = new Monitor({ engine, everySteps: 2 });
    const wanted: [number, unknown][] = [];
    for (const [at, small] of steps.entries()) {
      const step = monitor.step(at + 1, small.labels);
      if (step.due) await step.scoreAll({ logprobs: small.logprobs });
      wanted.push([at + 1, (await step.finish({ rewards: small.outcomes.rewards })).metrics]);
    }
    expect(logged).toEqual([...wanted, ...wanted]);
  });
});
