// More groups than a map of V8 has entries (16.8 million).
import { expect, it } from 'vitest';
import { filterGroups } from '../../src/index.js';

it('a filter that drops 17 million groups says of each why', () => {
  const GROUPS = 17_000_000;
  // One of them varies.
  const values = new Uint8Array(2 * GROUPS);
  values[0] = 1;
  const { kept, dropped, metrics } = filterGroups({ rewards: { values, groupSize: 2 } }, { dialect: 'dapo' });
  expect(kept).toEqual([0]);
  expect(metrics['rollout/filter_kept_count']).toBe(1);
  expect(dropped).toHaveLength(GROUPS - 1);
  expect(dropped.at(-1)).toEqual({ group: GROUPS - 1, reason: 'all_fail' });
}, 60_000);

it('a filter takes 17 million groups by ids that count up from 0', () => {
  const GROUPS = 17_000_000;
  const values = new Uint8Array(2 * GROUPS);
  values[0] = 1;
  const groups = Int32Array.from({ length: 2 * GROUPS }, (_, row) => row >> 1);
  expect(filterGroups({ rewards: { values, groups } }, { dialect: 'dapo' }).kept).toEqual([0]);
}, 60_000);
