// Work that takes long in TypeScript lets the event loop turn; what a monitor estimates from pairs ends when it is
// aborted.
import { describe, expect, it } from 'vitest';
import { type Interruptible, inSlices } from '../../src/metrics/slices.js';
import { Monitor } from '../../src/monitor/monitor.js';

/** Works `pieces` times for about 3 ms. */
function* pieces(count: number): Interruptible<string> {
  for (let piece = 0; piece < count; piece++) {
    const end = performance.now() + 3;
    while (performance.now() < end);
    yield;
  }
  return `${count} pieces`;
}

describe('interruptible work', () => {
  it('gives its result in slices, and the loop turns between slices', async () => {
    expect(await inSlices(pieces(0), undefined)).toBe('0 pieces');
    let turns = 0;
    const clock = setInterval(() => turns++, 1);
    try {
      expect(await inSlices(pieces(30), undefined)).toBe('30 pieces');
    } finally {
      clearInterval(clock);
    }
    // 90 ms of work in slices of 4 ms: some fifteen turns, fewer if the machine is slow.
    expect(turns).toBeGreaterThanOrEqual(3);
  });

  it('ends between slices once it is aborted, and does not begin if it was before', async () => {
    const controller = new AbortController();
    const work = pieces(10_000);
    const ending = inSlices(work, controller.signal);
    setTimeout(() => controller.abort(new Error('enough')), 1);
    await expect(ending).rejects.toThrow('enough');
    let begun = false;
    const never = (function* (): Interruptible<void> {
      begun = true;
      yield;
    })();
    await expect(inSlices(never, controller.signal)).rejects.toThrow('enough');
    expect(begun).toBe(false);
  });

  it('passes on what the work throws', async () => {
    const failing = function* (): Interruptible<void> {
      yield;
      throw new RangeError('no');
    };
    await expect(inSlices(failing(), undefined)).rejects.toThrow(RangeError);
  });
});

describe('a monitor that scores few negatives', () => {
  const rows = 1200;
  const prompts = 24;
  const labels = {
    groups: Array.from({ length: rows }, (_, row) => row % prompts),
    lengths: new Int32Array(rows).fill(5),
  };
  const data = Float64Array.from({ length: rows * prompts }, (_, at) => -((at * 7919) % 101) / 10);
  const scored = async (monitor: Monitor, step: number) => {
    const open = monitor.step(step, labels);
    await open.scoreAll({ sums: { data, dtype: 'float64', shape: [rows, prompts] } });
    return open;
  };

  it('hears an abort while it estimates, and finishes the same step as if there had been none', async () => {
    const options = { negatives: 12, everySteps: 1 } as const;
    await using monitor = new Monitor(options);
    await using other = new Monitor(options);
    const expected = await (await scored(other, 1)).finish();
    const open = await scored(monitor, 1);
    const before = monitor.save();
    const controller = new AbortController();
    // The pairs are on the engine's threads by then, for some milliseconds.
    setImmediate(() => controller.abort(new Error('enough')));
    await expect(open.finish({}, { signal: controller.signal })).rejects.toThrow('enough');
    expect(monitor.save()).toEqual(before);
    expect(await open.finish()).toEqual(expected);
    expect(monitor.save()).toEqual(other.save());
  });

  it('estimates one step after the other', async () => {
    await using monitor = new Monitor({ negatives: 12, everySteps: 1 });
    const steps = [await scored(monitor, 1), await scored(monitor, 2)];
    const finished: number[] = [];
    const reports = steps.map((open) => open.finish().then(({ step }) => finished.push(step)));
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(finished).toEqual([]);
    await reports[0];
    expect(finished).toEqual([1]);
    await reports[1];
    expect(finished).toEqual([1, 2]);
  });
});
