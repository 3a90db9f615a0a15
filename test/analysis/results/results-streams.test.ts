// Steps from anywhere in, reports out as they are read: the same as from files, and nothing ahead of the reader that
// need not be.
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { ReadableStream } from 'node:stream/web';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { analysisStream } from '../../../src/analysis/analysis-stream.js';
import { type AnalyzeOptions, analyze } from '../../../src/analysis/analyze.js';
import { mapAhead } from '../../../src/analysis/measuring/map-ahead.js';
import type { StepSource } from '../../../src/analysis/measuring/step-source.js';
import { ArgumentError, FileError } from '../../../src/checks/errors.js';
import type { Engine } from '../../../src/engine/engine.js';
import { openEngine } from '../../../src/engine/open-engine.js';
import { readSteps } from '../../../src/logs/steps/read-steps.js';
import type { StepData } from '../../../src/logs/steps/step-data.js';
import { readStepFile } from '../../../src/logs/steps/step-file.js';
import { elementOf, exampleRuns, putStep, smallStep } from '../../support/analysis-logs.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';

const directory = temporaryDirectory();
const healthy = join(exampleRuns, 'healthy');

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine();
});
afterAll(() => engine.dispose());

async function logs(steps: number): Promise<string> {
  const run = join(mkdtempSync(join(directory, 'x')), 'run');
  for (let step = 1; step <= steps; step++) await putStep(join(run, `${step}.safetensors`), smallStep(step));
  return run;
}

async function recordsOf(source: StepSource, options: AnalyzeOptions = {}) {
  const records = [];
  for await (const { record } of analyze(source, { engine, permutations: 19, ...options })) records.push(record);
  return records;
}

/** Steps one after the other, and how many were asked for. */
function counted(steps: AsyncIterable<StepData>) {
  const count = { asked: 0, ended: false };
  async function* counting() {
    try {
      for await (const step of steps) {
        count.asked++;
        yield step;
      }
    } finally {
      count.ended = true;
    }
  }
  return { count, source: counting() };
}

describe('steps as an async iterable or a Web Stream', () => {
  it('give what their files give', async () => {
    const wanted = await recordsOf(healthy);
    expect(await recordsOf(readSteps(healthy))).toEqual(wanted);
    expect(await recordsOf(ReadableStream.from(readSteps(healthy)) as ReadableStream<StepData>)).toEqual(wanted);
  });

  it('of several runs in turn are each judged by their own run', async () => {
    const names = ['collapse', 'healthy'].map((name) => join(exampleRuns, name));
    const wanted = await recordsOf(names);
    async function* inTurn() {
      const [one, other] = names.map((name) => readSteps(name)) as [AsyncGenerator<StepData>, AsyncGenerator<StepData>];
      for await (const step of one) {
        yield step;
        const { value } = await other.next();
        if (value !== undefined) yield value;
      }
      yield* other;
    }
    const found = await recordsOf(inTurn());
    const of = (records: typeof found, run: string) => records.filter((record) => record.run === run);
    for (const run of ['collapse', 'healthy']) expect(of(found, run)).toEqual(of(wanted, run));
  });

  it('with a bad one tell it and give the others', async () => {
    const run = await logs(4);
    const bad = smallStep(2);
    bad.logprobs.data[elementOf(1, 1, 1)] = Number.NaN;
    await putStep(join(run, '2.safetensors'), bad);
    const failures: FileError[] = [];
    const records = await recordsOf(readSteps(run), { onFailure: (failure) => failures.push(failure) });
    expect(records.map(({ step }) => step)).toEqual([1, 3, 4]);
    expect(failures.map(({ path }) => path)).toEqual([join(run, '2.safetensors')]);
    await expect(recordsOf(readSteps(run))).rejects.toBeInstanceOf(FileError);
  });

  it('are asked for no more than three ahead of the reader', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 8 }), async (read) => {
        const { count, source } = counted(readSteps(healthy));
        const reports = analyze(source, { engine, permutations: 0 });
        for (let at = 0; at < read; at++) await reports.next();
        await sleep(20);
        expect(count.asked).toBeLessThanOrEqual(read + 3);
        await reports.return();
        // A source that is at work on its next step ends after it.
        await vi.waitFor(() => expect(count.ended).toBe(true));
      }),
      { numRuns: 8 },
    );
  });

  it('are reported when they are through, however long the next one takes', async () => {
    const [first] = await recordsOf(healthy);
    async function* slow() {
      for await (const step of readSteps(healthy)) {
        yield step;
        // The trainer is busy.
        await new Promise(() => {});
      }
    }
    const ending = new AbortController();
    const reports = analyze(slow(), { engine, permutations: 19, signal: ending.signal });
    expect((await reports.next()).value?.record).toEqual(first);
    const waiting = reports.next();
    const reason = new Error('enough');
    setTimeout(() => ending.abort(reason), 10);
    await expect(waiting).rejects.toBe(reason);
  });

  it('whose source fails are reported up to there', async () => {
    const reason = new Error('the trainer crashed');
    async function* failing() {
      let steps = 0;
      for await (const step of readSteps(healthy)) {
        if (++steps === 4) throw reason;
        yield step;
      }
    }
    const found: number[] = [];
    const reading = async () => {
      for await (const { step } of analyze(failing(), { engine, permutations: 0 })) found.push(step);
    };
    await expect(reading()).rejects.toBe(reason);
    expect(found).toEqual([1, 4, 8]);
  });

  it('that are none end the analysis with an error that says which and why, after the reports of those before', async () => {
    const step = await readStepFile(join(await logs(1), '1.safetensors'));
    const bad: [unknown, string][] = [
      [undefined, 'source: step 1 of the stream: got undefined, expected a step'],
      [new Uint8Array(3), 'step 1 of the stream.file: got undefined'],
      [{}, 'step 1 of the stream.file: got undefined'],
      [{ ...step, step: 1.5 }, 'step 1 of the stream.step: got 1.5, expected a whole number'],
      [{ ...step, run: 3 }, 'step 1 of the stream.run: got 3'],
      [{ ...step, bytes: undefined }, 'step 1 of the stream.bytes: got undefined'],
      [{ ...step, scores: {} }, 'step 1 of the stream.scores: got a value of type Object, expected { kind: "logprobs"'],
      [{ ...step, group: [0, 1] }, 'step 1 of the stream.group: got an array of 2, expected an Int32Array'],
    ];
    for (const [item, problem] of bad) {
      const found: number[] = [];
      const reading = async () => {
        const steps = ReadableStream.from([step, item]) as ReadableStream<StepData>;
        for await (const report of analyze(steps, { engine, permutations: 0 })) found.push(report.step);
      };
      const read = reading();
      await expect(read).rejects.toBeInstanceOf(ArgumentError);
      await expect(read).rejects.toThrow(problem);
      expect(found).toEqual([1]);
    }
  });

  it('out of order say so, and have no verdicts; the others have theirs', async () => {
    const run = await logs(4);
    const path = (step: number) => join(run, `${step}.safetensors`);
    async function* shuffled() {
      for (const step of [1, 3, 2, 3, 4]) yield await readStepFile(path(step));
    }
    const records = await recordsOf(shuffled());
    const effect = 'it has no verdicts, and the moving averages (*_ema_by_step) take it for the step after';
    expect(records.map(({ notes }) => notes?.find((note) => note.includes(effect)))).toEqual([
      undefined,
      undefined,
      `out of order: step 2 of run run (${path(2)}) comes after step 3 (${path(3)}): ${effect}; hand out the steps of a run ` +
        'in rising order',
      `step 3 of run run comes twice from ${path(3)}: ${effect}; remove one of the two, or give it its own number`,
      undefined,
    ]);
    expect(records.map(({ regime }) => regime !== undefined)).toEqual([true, true, false, false, true]);
  });

  it('tell how far they are of those that have come', async () => {
    const seen: string[] = [];
    const onProgress: AnalyzeOptions['onProgress'] = ({ done, total }) => {
      expect(total).toBeLessThanOrEqual(done + 3);
      seen.push(String(done));
    };
    await recordsOf(readSteps(await logs(5)), { onProgress });
    expect(seen).toEqual(['1', '2', '3', '4', '5']);
  });
});

describe('reports as a Web Stream', () => {
  it('are those of analyze', async () => {
    const found = [];
    for await (const { record } of analysisStream(healthy, { engine, permutations: 19 })) found.push(record);
    expect(found).toEqual(await recordsOf(healthy));
  });

  it('are computed when they are read, and their end is the end of the source', async () => {
    const { count, source } = counted(readSteps(healthy));
    const reader = analysisStream(source, { engine, permutations: 0 }).getReader();
    await sleep(20);
    expect(count.asked).toBe(0);
    expect((await reader.read()).value?.step).toBe(1);
    await sleep(20);
    expect(count.asked).toBeLessThanOrEqual(4);
    await reader.cancel();
    await vi.waitFor(() => expect(count.ended).toBe(true));
  });

  it('are refused at once with what makes no sense', () => {
    expect(() => analysisStream(healthy, { onProgress: 3 } as unknown as AnalyzeOptions)).toThrow(ArgumentError);
    expect(() => analysisStream(healthy, null as unknown as AnalyzeOptions)).toThrow(
      'options: got null, expected an object',
    );
  });

  it('fail with what analyze throws, and pipe through other streams', async () => {
    await expect(analysisStream(join(directory, 'missing'), { engine }).getReader().read()).rejects.toBeInstanceOf(
      FileError,
    );
    const steps: number[] = [];
    const toStep = new TransformStream({
      transform: (report: { step: number }, controller) => controller.enqueue(report.step),
    });
    const piped = analysisStream(await logs(3), { engine, permutations: 0 }).pipeThrough(toStep);
    for await (const step of piped) steps.push(step as number);
    expect(steps).toEqual([1, 2, 3]);
  });
});

describe('mapAhead', () => {
  it('keeps the order, and what is under way within its limits, for any weights', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat({ max: 50 }), { maxLength: 30 }),
        fc.integer({ min: 0, max: 4 }),
        fc.nat({ max: 80 }),
        fc.boolean(),
        async (weights, ahead, capacity, isAsync) => {
          const underWay = new Set<number>();
          const work = async (at: number) => {
            underWay.add(at);
            const bytes = [...underWay].reduce((total, one) => total + (weights[one] as number), 0);
            expect(underWay.size).toBeLessThanOrEqual(ahead + 1);
            expect(bytes <= capacity || underWay.size === 1 || weights[at] === 0).toBe(true);
            for (let turn = 0; turn < (at * 7) % 5; turn++) await null;
            return at;
          };
          const items = weights.map((_, at) => at);
          async function* later() {
            for (const item of items) {
              await null;
              yield item;
            }
          }
          const limits = { ahead, capacity, weight: (at: number) => weights[at] as number };
          const found: number[] = [];
          for await (const at of mapAhead(isAsync ? later() : items, limits, work, () => {})) {
            found.push(at);
            // Until its result is taken it counts.
            underWay.delete(at);
          }
          expect(found).toEqual(items);
        },
      ),
    );
  });
});

it('a file that was read whole is as good as one that is read block by block', async () => {
  const run = await logs(2);
  async function* whole() {
    for (const step of [1, 2]) {
      const data = await readStepFile(join(run, `${step}.safetensors`));
      if (data.scores.kind !== 'logprobs') throw new Error('expected token log-probs');
      for await (const block of data.scores.blocks()) {
        const { scores } = data;
        yield {
          ...data,
          scores: {
            ...scores,
            blocks: async function* () {
              yield block;
            },
          },
        } as StepData;
      }
    }
  }
  expect(await recordsOf(whole())).toEqual(await recordsOf(run));
});

it('what no figure is made of is not read where it can be left', async () => {
  const rows = 12;
  const ids = { data: new Int32Array(rows * 3), shape: [rows, 3] as const };
  const path = join(mkdtempSync(join(directory, 'x')), 'step.safetensors');
  await putStep(path, { ...smallStep(1), responseIds: ids });
  expect((await readStepFile(path)).responseIds?.shape).toEqual([rows, 3]);
  expect((await readStepFile(path, { unread: new Set(['response_ids']) })).responseIds).toBeUndefined();
});
