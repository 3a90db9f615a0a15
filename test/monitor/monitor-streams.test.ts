// Steps in, reports out, as an async iterable and as a Web Stream: the same reports, and no more work than is read.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  ArgumentError,
  type Engine,
  Monitor,
  type MonitorInput,
  type MonitorOptions,
  openEngine,
} from '../../src/index.js';
import { scorePrompts, smallStep } from './monitor-run.js';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
});
afterAll(() => engine.dispose());

const open = (options: MonitorOptions = {}) =>
  new Monitor({ engine, permutations: 9, filter: {}, everySteps: 2, ...options });

function inputOf(step: number, scored: 'whole' | 'function' = 'whole'): MonitorInput {
  const small = smallStep(step);
  const { labels, logprobs, outcomes } = small;
  const scores: MonitorInput['scores'] = scored === 'whole' ? { logprobs } : (opened) => scorePrompts(opened, small);
  return { step, labels, scores, outcomes };
}

/** Steps 1 to `count`; `begun` says how many were asked for. */
function source(count: number) {
  const seen = { begun: 0, closed: false };
  async function* steps(): AsyncGenerator<MonitorInput> {
    try {
      for (let step = 1; step <= count; step++) {
        seen.begun++;
        yield inputOf(step);
      }
    } finally {
      seen.closed = true;
    }
  }
  return { seen, steps: steps() };
}

async function plain(count: number, options: MonitorOptions = {}): Promise<string[]> {
  const monitor = open(options);
  const reports: string[] = [];
  for (let step = 1; step <= count; step++) {
    const { labels, outcomes } = inputOf(step);
    const opened = monitor.step(step, labels);
    await scorePrompts(opened, smallStep(step));
    reports.push(JSON.stringify(await opened.finish(outcomes)));
  }
  return reports;
}

/** Lets everything that can go on without the reader go on. */
const settle = () => sleep(30);

describe('reports()', () => {
  it('gives what step by step gives', async () => {
    const reports: string[] = [];
    for await (const report of open().reports(source(6).steps)) reports.push(JSON.stringify(report));
    expect(reports).toEqual(await plain(6));
  });

  it('takes a plain iterable, and asks for scores only where they are due', async () => {
    const asked: number[] = [];
    const inputs = [1, 2, 3, 4, 5].map(
      (step): MonitorInput => ({
        ...inputOf(step),
        scores: async (opened) => {
          asked.push(opened.number);
          await scorePrompts(opened, smallStep(step));
        },
      }),
    );
    const reports: string[] = [];
    for await (const report of open({ judge: false }).reports(inputs)) reports.push(JSON.stringify(report));
    expect(asked).toEqual([1, 2, 4]);
    expect(reports).toEqual(await plain(5, { judge: false }));
  });

  it('takes whole scores from a function, too, and refuses what is none', async () => {
    const { scores, ...input } = inputOf(1);
    const whole = { logprobs: smallStep(1).logprobs };
    const reports: string[] = [];
    for await (const report of open().reports([{ ...input, scores: () => whole }]))
      reports.push(JSON.stringify(report));
    expect(reports).toEqual(await plain(1));
    const none = (() => 5) as unknown as () => undefined;
    await expect(
      open()
        .reports([{ ...input, scores: none }])
        .next(),
    ).rejects.toThrow(ArgumentError);
  });

  it('asks for a step when its report is asked for, and closes the source when the reader leaves', async () => {
    const { seen, steps } = source(9);
    const monitor = open();
    const reports = monitor.reports(steps);
    await settle();
    expect(seen.begun).toBe(0);
    for (const count of [1, 2, 3]) {
      await reports.next();
      await settle();
      expect([seen.begun, monitor.lastStep]).toEqual([count, count]);
    }
    await reports.return();
    expect(seen).toEqual({ begun: 3, closed: true });
  });

  it.each([null, 5, 'steps', {}])('is refused by name where the source is none: %j', async (source) => {
    const none = source as unknown as MonitorInput[];
    await expect(open().reports(none).next()).rejects.toThrow(ArgumentError);
    const { labels } = inputOf(1);
    const blocks = none as unknown as [];
    await expect(open().step(1, labels).scoreBlocks(blocks)).rejects.toThrow('expected an (async) iterable');
    await expect(
      open()
        .reports([], null as unknown as object)
        .next(),
    ).rejects.toThrow(ArgumentError);
    expect(() => open().transform(null as unknown as object)).toThrow(ArgumentError);
  });

  it('asks for no step after an abort', async () => {
    const { seen, steps } = source(9);
    const controller = new AbortController();
    const reports = open().reports(steps, { signal: controller.signal });
    await reports.next();
    controller.abort(new Error('enough'));
    await expect(reports.next()).rejects.toThrow('enough');
    await settle();
    expect(seen).toEqual({ begun: 1, closed: true });
  });

  it('cancels its stream where the signal was aborted before', async () => {
    let cancelled: unknown;
    const cancel = (reason: unknown): void => {
      cancelled = reason;
    };
    const reason = new Error('never');
    const steps = new ReadableStream<MonitorInput>({ cancel });
    await expect(
      open()
        .reports(steps, { signal: AbortSignal.abort(reason) })
        .next(),
    ).rejects.toBe(reason);
    expect([cancelled, steps.locked]).toEqual([reason, false]);
  });

  it('ends with the error of a step; the monitor is as after the last report', async () => {
    const inputs = [inputOf(1), inputOf(2), { ...inputOf(3), outcomes: { rewards: [1] } }, inputOf(4)];
    const monitor = open();
    const seen: number[] = [];
    const reading = (async () => {
      for await (const { step } of monitor.reports(inputs)) seen.push(step);
    })();
    await expect(reading).rejects.toThrow(ArgumentError);
    expect([seen, monitor.lastStep]).toEqual([[1, 2], 2]);
  });

  it('refuses a due step without scores', async () => {
    const { scores: _, ...bare } = inputOf(1);
    await expect(open().reports([bare]).next()).rejects.toThrow('4 of 4 prompts were never scored');
    await expect(
      open()
        .reports([3 as unknown as MonitorInput])
        .next(),
    ).rejects.toThrow(ArgumentError);
  });
});

describe('transform()', () => {
  it('gives what step by step gives', async () => {
    const reports: string[] = [];
    const stream = ReadableStream.from(source(6).steps).pipeThrough(open().transform());
    for await (const report of stream) reports.push(JSON.stringify(report));
    expect(reports).toEqual(await plain(6));
  });

  it('computes nothing ahead of the reader, and takes one step in ahead', async () => {
    const monitor = open();
    const { readable, writable } = monitor.transform();
    const [reader, writer] = [readable.getReader(), writable.getWriter()];
    const taken: number[] = [];
    const begun: number[] = [];
    const writing = [1, 2, 3, 4].map((step) =>
      writer.write({ ...inputOf(step), labels: counted(step, begun) }).then(() => taken.push(step)),
    );
    await settle();
    // The first step waits inside; the writer is told to wait.
    expect([begun, taken, writer.desiredSize, monitor.lastStep]).toEqual([[], [], -3, null]);
    for (const step of [1, 2, 3]) {
      expect((await reader.read()).value?.step).toBe(step);
      await settle();
      // Never more than what was read.
      expect([begun.length, monitor.lastStep]).toEqual([step, step]);
    }
    const closing = writer.close();
    expect((await reader.read()).value?.step).toBe(4);
    await Promise.all([...writing, closing]);
    expect(taken).toEqual([1, 2, 3, 4]);
    expect((await reader.read()).done).toBe(true);
  });

  it('holds back a piped source: one step is asked for beyond what was read', async () => {
    const { seen, steps } = source(50);
    const monitor = open();
    const reader = ReadableStream.from(steps).pipeThrough(monitor.transform()).getReader();
    for (let read = 1; read <= 5; read++) {
      await reader.read();
      await settle();
      // Read so far, one that waits in the transform, one in the queue of ReadableStream.from().
      expect(monitor.lastStep).toBe(read);
      expect(seen.begun).toBeLessThanOrEqual(read + 2);
    }
    await reader.cancel();
    await settle();
    expect(seen.closed).toBe(true);
  });

  it('breaks with the error of a step', async () => {
    const monitor = open();
    const inputs = [inputOf(1), { ...inputOf(2), step: 1 }];
    const reader = ReadableStream.from(inputs).pipeThrough(monitor.transform()).getReader();
    expect((await reader.read()).value?.step).toBe(1);
    await expect(reader.read()).rejects.toThrow('step 1 was finished');
    expect(monitor.lastStep).toBe(1);
  });
});

/** Labels that note when the monitor looks at them. */
function counted(step: number, begun: number[]): MonitorInput['labels'] {
  const { labels } = smallStep(step);
  return {
    ...labels,
    get groups() {
      if (!begun.includes(step)) begun.push(step);
      return labels.groups;
    },
  };
}
