// Shapes of saved data: what was saved passes as a copy, and anything else is refused by its path.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StateError } from '../../src/checks/errors.js';
import {
  anyNumber,
  count,
  countTo,
  DamagedPart,
  either,
  fields,
  flag,
  list,
  notNegative,
  nullable,
  number,
  oneOf,
  optional,
  pair,
  record,
  SavedState,
  text,
} from '../../src/checks/saved.js';

const shape = fields({
  step: nullable(count),
  share: number,
  width: notNegative,
  any: anyNumber,
  mode: oneOf('a', 'b'),
  on: flag,
  names: list(text, 3),
  by: record(fields({ low: countTo(9) })),
  ends: optional(pair(number)),
  group: either((value) => typeof value === 'string', text, count),
});

const saved = fc.record(
  {
    step: fc.option(fc.nat()),
    share: fc.double({ noNaN: true, noDefaultInfinity: true }),
    width: fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }),
    any: fc.double(),
    mode: fc.constantFrom('a', 'b'),
    on: fc.boolean(),
    names: fc.array(fc.string(), { maxLength: 3 }),
    by: fc.dictionary(fc.string(), fc.record({ low: fc.integer({ min: 0, max: 9 }) })),
    ends: fc.tuple(fc.integer(), fc.integer()),
    group: fc.oneof(fc.string(), fc.nat()),
  },
  { requiredKeys: ['step', 'share', 'width', 'any', 'mode', 'on', 'names', 'by', 'group'], noNullPrototype: true },
);

describe('a shape', () => {
  it('gives a copy of what was saved, without what it does not know', () => {
    fc.assert(
      fc.property(saved, (value) => {
        const read = shape({ ...value, unknown: 1 });
        expect(read).toEqual(value);
        expect(read.names).not.toBe(value.names);
      }),
    );
  });

  it('refuses a part of another kind, by its path', () => {
    const whole = fc.sample(saved, { numRuns: 1, seed: 1 })[0] as object;
    const refused: [name: string, value: unknown, path: string][] = [
      ['step', -1, 'step is -1, expected a whole number from 0 on'],
      ['step', undefined, 'step is undefined'],
      ['share', Number.NaN, 'share is NaN, expected a finite number'],
      ['width', -0.5, 'width is -0.5'],
      ['any', '1', 'any is "1", expected a number'],
      ['mode', 'c', 'mode is "c", expected "a" or "b"'],
      ['on', 1, 'on is 1, expected true or false'],
      ['names', ['', 2], 'names[1] is 2, expected a string'],
      ['names', ['', '', '', ''], 'names is an array of 4, expected a list of at most 3'],
      ['by', { x: { low: 10 } }, 'by.x.low is 10, expected a whole number from 0 to 9'],
      ['by', [], 'by is an array of 0, expected an object'],
      ['ends', [1], 'ends is an array of 1, expected a list of two'],
      ['group', -1, 'group is -1'],
    ];
    for (const [name, value, message] of refused) {
      const attempt = () => shape({ ...whole, [name]: value });
      expect(attempt).toThrow(DamagedPart);
      expect(attempt).toThrow(message);
    }
  });

  it('never gives a value that it would not take again', () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        let read: ReturnType<typeof shape>;
        try {
          read = shape(value);
        } catch (error) {
          expect(error).toBeInstanceOf(StateError);
          return;
        }
        expect(shape(read)).toEqual(read);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('a saved state', () => {
  const kind = { format: 'x/judge', version: 2, is: 'judge', from: 'Judge.toJSON()', without: 'start anew' } as const;
  const state = new SavedState(kind, fields({ steps: count }));

  it('is read with its format and version', () => {
    const value = { format: 'x/judge', version: 2, steps: 3 };
    expect(state.read(value)).toEqual(value);
  });

  it.each<[unknown, string]>([
    [null, 'not a saved judge: got null with format undefined'],
    ['{}', '(a JSON text must be parsed first)'],
    [{ format: 'x/other' }, 'not a saved judge: got a value of type Object with format "x/other"'],
    [{ format: 'x/judge', version: 1 }, 'a saved judge of version 1; this release reads version 2'],
    [
      { format: 'x/judge', version: 2, steps: 'x' },
      'the saved judge is damaged: steps is "x", expected a whole number from 0 on; ' +
        'restore from the object that Judge.toJSON() gave, or start anew',
    ],
  ])('is refused where it is another: %j', (value, message) => {
    expect(() => state.read(value)).toThrow(StateError);
    expect(() => state.read(value)).toThrow(message);
  });

  it('is named by its path as a part of another, but for its version', () => {
    const kind = {
      format: 'x/monitor',
      version: 1,
      is: 'monitor',
      from: 'Monitor.save()',
      without: 'start anew',
    } as const;
    const outer = new SavedState(kind, fields({ judge: state.shape }));
    const read = (judge: object) => outer.read({ format: 'x/monitor', version: 1, judge });
    expect(() => read({ format: 'x/judge', version: 2 })).toThrow('the saved monitor is damaged: judge.steps');
    expect(() => read({ format: 'x/judge', version: 1 })).toThrow('a saved judge of version 1');
  });
});
