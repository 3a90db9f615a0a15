// A sink that fails, hangs or is slow: it costs itself, and nobody else.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Monitor } from '../../src/monitor/monitor.js';
import type { Sink } from '../../src/monitor/sinks/sink.js';
import { SinkQueue } from '../../src/monitor/sinks/sink-queue.js';
import type { StepReport } from '../../src/step/step-report.js';
import { smallStep } from '../monitor/monitor-run.js';
import { reportWith } from './sink-reports.js';

const report = (step: number): StepReport => reportWith({ run: 'r', step, metrics: {} });

function keeping(more: Partial<Sink> = {}): Sink & { steps: number[]; closed: number } {
  const sink = {
    steps: [] as number[],
    closed: 0,
    step: async ({ step }: StepReport) => {
      sink.steps.push(step);
    },
    close: async () => {
      sink.closed++;
    },
    ...more,
  };
  return sink;
}

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe('SinkQueue', () => {
  it('gives steps one after the other, in their order', async () => {
    let working = 0;
    const sink = keeping({
      step: async ({ step }) => {
        expect(++working).toBe(1);
        await sleep(step % 2);
        working--;
        sink.steps.push(step);
      },
    });
    const queue = new SinkQueue(sink, () => expect.fail());
    for (let step = 1; step <= 20; step++) queue.offer(report(step));
    await queue.close();
    expect(sink.steps).toEqual(Array.from({ length: 20 }, (_, at) => at + 1));
    expect(sink.closed).toBe(1);
  });

  it('warns once of a sink that fails, tries it again after a pause, and counts what is lost', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    let isDown = true;
    const sink = keeping({
      step: async ({ step }) => {
        if (isDown) throw new Error('down');
        sink.steps.push(step);
      },
    });
    const warnings: string[] = [];
    const queue = new SinkQueue(sink, (problem) => warnings.push(problem));
    for (let step = 1; step <= 3; step++) queue.offer(report(step));
    await queue.idle();
    isDown = false;
    queue.offer(report(4));
    await queue.idle();
    expect(sink.steps).toEqual([]);
    vi.advanceTimersByTime(31_000);
    queue.offer(report(5));
    await queue.idle();
    expect(sink.steps).toEqual([5]);
    expect(warnings).toEqual(['down']);
    expect(queue.lost).toBe(4);
  });

  it('holds a bounded number of reports of a sink that hangs', async () => {
    const warnings: string[] = [];
    const queue = new SinkQueue(keeping({ step: () => new Promise(() => {}) }), (problem) => warnings.push(problem));
    for (let step = 1; step <= 5000; step++) queue.offer(report(step));
    await sleep(1);
    expect(queue.lost).toBeGreaterThan(3900);
    expect(warnings).toEqual(['it is slower than the steps come: 1024 wait already']);
  });

  it('does not wait for ever for a sink that hangs', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const warnings: string[] = [];
    const queue = new SinkQueue(keeping({ step: () => new Promise(() => {}) }), (problem) => warnings.push(problem));
    queue.offer(report(1));
    const closed = queue.close();
    await vi.advanceTimersByTimeAsync(15_001);
    await closed;
    expect(warnings).toEqual(['it took more than 15 s to end']);
  });

  it('lets a reader of logs wait until there is room', async () => {
    const sink = keeping({ step: () => sleep(1) });
    const queue = new SinkQueue(sink, () => expect.fail());
    let most = 0;
    let taken = 0;
    sink.step = async () => {
      taken++;
      await sleep(0);
    };
    for (let step = 1; step <= 300; step++) {
      queue.offer(report(step));
      most = Math.max(most, step - taken);
      await queue.room();
    }
    await queue.close();
    expect(most).toBeLessThan(80);
    expect(taken).toBe(300);
  });
});

describe('Monitor({ sinks })', () => {
  async function train(monitor: Monitor, steps: number): Promise<number[]> {
    const finished: number[] = [];
    for (let n = 1; n <= steps; n++) {
      const { labels, logprobs, outcomes } = smallStep(n);
      const step = monitor.step(n, labels);
      if (step.due) await step.scoreAll({ logprobs });
      finished.push((await step.finish(outcomes)).step);
    }
    return finished;
  }

  it('gives every report to every sink under the name of the run, and closes them', async () => {
    const given: StepReport[] = [];
    const sink = keeping({ step: async (report) => void given.push(report) });
    const monitor = new Monitor({ sinks: [sink], run: 'grpo', permutations: 0 });
    await train(monitor, 4);
    await monitor.dispose();
    expect(given.map(({ run, step }) => [run, step])).toEqual([1, 2, 3, 4].map((step) => ['grpo', step]));
    expect(given[0]?.metrics).toHaveProperty(['collapse_first_turn_sample/mi_seq_estimate']);
    expect(given[0]?.judgement?.step).toBe(1);
    expect(sink.closed).toBe(1);
  });

  it('trains on where a sink throws, rejects or hangs, and warns once of each', async () => {
    const warning = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const throwing = keeping({
      step: () => {
        throw new Error('thrown');
      },
    });
    const rejecting = keeping({ step: () => Promise.reject(new Error('rejected')) });
    const hanging = keeping({ step: () => new Promise(() => {}) });
    const monitor = new Monitor({ sinks: [throwing, rejecting, hanging], permutations: 0 });
    expect(await train(monitor, 3)).toEqual([1, 2, 3]);
    await sleep(1);
    expect(warning.mock.calls.map(([text]) => String(text).split(': ').at(-1)).sort()).toEqual(['rejected', 'thrown']);
  });

  it('refuses what is no sink, and a run without a name', () => {
    expect(() => new Monitor({ sinks: [{} as Sink] })).toThrow(/options\.sinks\[0\].*expected a sink/);
    expect(() => new Monitor({ run: '' })).toThrow(/options\.run.*expected a name/);
  });
});
