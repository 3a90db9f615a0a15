import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkOptions, is } from '../../src/checks/options.js';

const TABLE = {
  seed: is.integer(0),
  share: is.fraction,
  mode: is.oneOf(['fast', 'slow', 'off']),
  width: is.needed(is.number('a number above 0', (width) => width > 0)),
  onDone: is.callback,
  signal: is.signal,
};

/** What checkOptions refuses with; undefined where it takes the options. */
function refusal(options: object): string | undefined {
  try {
    checkOptions(options, TABLE);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

describe('checkOptions', () => {
  it('takes options of their kinds, and those that are left out or undefined', () => {
    expect(refusal({ width: 1 })).toBeUndefined();
    expect(refusal({ width: 1, seed: 0, share: 1, mode: 'off', onDone() {}, signal: undefined })).toBeUndefined();
  });

  it.each([
    [{ width: 1, sead: 1 }, 'options.sead: unknown option; known are seed, share, mode, width, onDone, signal'],
    [{ width: 1, seed: -1 }, 'options.seed: got -1, expected an integer from 0 on'],
    [{ width: 1, share: 0 }, 'options.share: got 0, expected a number above 0 and at most 1'],
    [{ width: 1, mode: 'off ' }, 'options.mode: got "off ", expected "fast", "slow" or "off"'],
    [{ width: Number.NaN }, 'options.width: got NaN, expected a number above 0'],
    [{}, 'options.width: got undefined, expected a number above 0'],
    [{ width: 1, onDone: 1 }, 'options.onDone: got 1, expected a function'],
    [{ width: 1, signal: {} }, 'options.signal: got a value of type Object, expected an AbortSignal'],
    [Promise.resolve({ width: 1 }), 'options: got a Promise: await it first'],
  ])('refuses %j by name, with what was expected', (options, message) => {
    expect(refusal(options)).toBe(message);
  });

  it('takes an integer exactly where it is one within its bounds', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: -9, max: 9 }),
        fc.nat(9),
        fc.oneof(fc.integer({ min: -20, max: 20 }), fc.double()),
        (least, size, value) => {
          const isTaken = (() => {
            try {
              checkOptions({ value }, { value: is.integer(least, least + size) });
              return true;
            } catch {
              return false;
            }
          })();
          expect(isTaken).toBe(Number.isSafeInteger(value) && value >= least && value <= least + size);
        },
      ),
    );
  });
});
