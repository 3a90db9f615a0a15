// Which rows of a step count as independent draws.
import { describe, expect, it } from 'vitest';
import { firstTurns } from '../../src/step/first-turns.js';

describe('firstTurns', () => {
  const groups = [0, 0, 0, 0, 1, 1];

  it('takes every row where nothing says which turn it is', () => {
    expect(firstTurns({ rows: 6, groups, episodes: [1, 1, 2, 2, 1, 1], turns: undefined })).toEqual([0, 1, 2, 3, 4, 5]);
    expect(firstTurns({ rows: 0, groups: [], episodes: [], turns: [] })).toEqual([]);
  });

  it('takes the lowest turn of each episode, in the order of rows, whatever the order of turns', () => {
    const episodes = ['a', 'a', 'b', 'b', 'a', 'a'];
    expect(firstTurns({ rows: 6, groups, episodes, turns: [2, 1, 5, 7, 4, 3] })).toEqual([1, 2, 5]);
    expect(firstTurns({ rows: 6, groups, episodes, turns: BigInt64Array.from([2n, 1n, 5n, 7n, 4n, 3n]) })).toEqual([
      1, 2, 5,
    ]);
  });

  it('takes all rows of that turn, and a row without a turn by itself', () => {
    const episodes = ['a', 'a', 'a', 'a', 'b', 'b'];
    const turns = Float64Array.from([1, 1, Number.NaN, 2, 0, Number.NaN]);
    expect(firstTurns({ rows: 6, groups, episodes, turns })).toEqual([0, 1, 2, 4, 5]);
  });

  it('takes the lowest turn of a group where rows are of no episode', () => {
    expect(firstTurns({ rows: 6, groups, episodes: undefined, turns: [3, 2, 2, 4, 9, 9] })).toEqual([1, 2, 4, 5]);
    expect(firstTurns({ rows: 3, groups: undefined, episodes: undefined, turns: [3, 2, 2] })).toEqual([1, 2]);
  });
});
