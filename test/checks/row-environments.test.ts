import { describe, expect, it } from 'vitest';
import {
  checkOneEnvironmentEach,
  givenEnvironments,
  pickRows,
  rowEnvironments,
  rowsByEnvironment,
} from '../../src/checks/row-environments.js';

describe('rowEnvironments', () => {
  it('names each environment once, whatever the order of the rows', () => {
    expect(rowEnvironments(['math', 'code', 'math'])).toEqual({
      names: ['code', 'math'],
      ofRow: Int32Array.of(1, 0, 1),
    });
    expect(rowEnvironments(['code', 'math', 'math'])?.names).toEqual(['code', 'math']);
  });

  it('calls rows without a label among labelled ones (none)', () => {
    expect(rowEnvironments([null, 'math', undefined])).toEqual({
      names: ['(none)', 'math'],
      ofRow: Int32Array.of(0, 1, 0),
    });
  });

  it('gives nothing where no row has a label', () => {
    expect(rowEnvironments([null, undefined])).toBeUndefined();
    expect(rowEnvironments([])).toBeUndefined();
  });

  it('keeps an empty name and names of properties apart', () => {
    expect(rowEnvironments(['', '__proto__', 'constructor'])?.names).toEqual(['', '__proto__', 'constructor']);
  });

  it('refuses labels of another number or kind in words', () => {
    expect(() => rowEnvironments(['a'], 2)).toThrow('environments: 1 label for 2 rows');
    expect(() => rowEnvironments(['a', 3 as never])).toThrow(
      'environments: entry 1 is 3, expected the name of an environment, or null for a row without one',
    );
    expect(() => rowEnvironments('ab' as never)).toThrow('environments: got "ab", expected an array');
  });
});

describe('checkOneEnvironmentEach', () => {
  it('takes prompts that have one environment each', () => {
    const environments = rowEnvironments(['a', 'b', 'a', 'b']);
    if (environments === undefined) throw new Error('no environments');
    expect(() => checkOneEnvironmentEach(environments, [0, 1, 2, 1])).not.toThrow();
  });

  it('names the prompt and both environments of one that has two', () => {
    const environments = rowEnvironments(['a', 'b', null]);
    if (environments === undefined) throw new Error('no environments');
    expect(() => checkOneEnvironmentEach(environments, [7, 7n, 8])).toThrow(
      'prompt 7 is of environment "a" in one row and of "b" in row 1',
    );
    expect(() => checkOneEnvironmentEach(environments, ['x', 'y', 'x'])).toThrow(
      'prompt x is of environment "a" in one row and of "(none)" in row 2',
    );
  });
});

describe('givenEnvironments', () => {
  it('takes labels, or what was made of them, and checks them against the rows', () => {
    const made = rowEnvironments(['a', 'b']);
    expect(givenEnvironments(['a', 'b'], [1, 2], 'environments')).toEqual(made);
    expect(givenEnvironments(made, [1, 2], 'environments')).toBe(made);
    expect(givenEnvironments(undefined, [1, 2], 'environments')).toBeUndefined();
    expect(givenEnvironments([null, null], [1, 2], 'environments')).toBeUndefined();
    expect(() => givenEnvironments(made, [1], 'environments')).toThrow('environments: 2 labels for 1 row');
    expect(() => givenEnvironments(made, [1, 1], 'labels')).toThrow('labels: prompt 1 is of environment "a"');
  });
});

describe('rowsByEnvironment', () => {
  it('gives the rows of each name', () => {
    const environments = rowEnvironments(['b', 'a', 'b']);
    if (environments === undefined) throw new Error('no environments');
    expect(rowsByEnvironment(environments)).toEqual([[1], [0, 2]]);
  });
});

describe('pickRows', () => {
  it('keeps the names that some rows have', () => {
    const environments = rowEnvironments(['a', 'b', 'c', 'b']);
    if (environments === undefined) throw new Error('no environments');
    expect(pickRows(environments, [3, 2])).toEqual({ names: ['b', 'c'], ofRow: Int32Array.of(0, 1) });
    expect(pickRows(environments, [])).toEqual({ names: [], ofRow: new Int32Array(0) });
  });
});
