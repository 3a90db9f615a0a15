// Estimates from pairs take long in TypeScript: what a monitor does with them lets the event loop turn.
import { describe, expect, it } from 'vitest';
import { atOnce, type Interruptible, inSlices } from '../src/metrics/planned/slices.js';

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
  it('gives one result at once and in slices, and the loop turns between slices', async () => {
    expect(atOnce(pieces(3))).toBe('3 pieces');
    expect(await inSlices(pieces(0), undefined)).toBe('0 pieces');
    let turns = 0;
    const clock = setInterval(() => turns++, 1);
    try {
      expect(await inSlices(pieces(30), undefined)).toBe('30 pieces');
    } finally {
      clearInterval(clock);
    }
    // 90 ms of work in slices of 8 ms: eleven turns or fewer, if the machine is slow.
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
    expect(() => atOnce(failing())).toThrow(RangeError);
    await expect(inSlices(failing(), undefined)).rejects.toThrow(RangeError);
  });
});
