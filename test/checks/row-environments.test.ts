import { describe, expect, it } from 'vitest';
import { checkOneEnvironmentEach, environmentsOf, rowEnvironments } from '../../src/checks/row-environments.js';

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

describe('environmentsOf', () => {
  it('keeps the environments that some rows have, and gives nothing where these are one', () => {
    const environments = rowEnvironments(['a', 'b', 'c', 'b']);
    if (environments === undefined) throw new Error('no environments');
    expect(environmentsOf(environments, [3, 2])).toEqual({ names: ['b', 'c'], ofRow: Int32Array.of(0, 1) });
    expect(environmentsOf(environments, [1, 3])).toBeUndefined();
  });
});
