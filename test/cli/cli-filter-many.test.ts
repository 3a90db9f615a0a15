// `collapsar filter` of very many groups: what it prints may be longer than a string can be.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { jsonPieces } from '../../src/cli/output/json-pieces.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { collapsar } from './cli-streams.js';

const directory = temporaryDirectory();

describe('JSON in pieces', () => {
  it('is the text of JSON.stringify', () => {
    const value = fc.jsonValue({ maxDepth: 3 });
    const object = fc.dictionary(fc.string(), fc.oneof(value, fc.array(value), fc.constant(undefined)));
    fc.assert(
      fc.property(object, (members) => {
        expect([...jsonPieces(members)].join('')).toBe(JSON.stringify(members, null, 2));
      }),
      { numRuns: 300 },
    );
  });

  it('has lists of any length, and of any iterable', () => {
    for (const length of [0, 1, 4095, 4096, 4097, 9000]) {
      const list = Array.from({ length }, (_, at) => ({ at, name: `"${at}\n` }));
      const pieces = [...jsonPieces({ list: list.values(), bytes: Uint8Array.of(1, 0), last: null })];
      expect(pieces.join('')).toBe(JSON.stringify({ list, bytes: [1, 0], last: null }, null, 2));
    }
  });
});

it('prints the groups of a large batch without a string that holds them all', async () => {
  const GROUPS = 20_000;
  const path = join(directory, 'many.csv');
  writeFileSync(path, Array.from({ length: 2 * GROUPS }, (_, row) => `g${row >> 1},${row % 3}\n`).join(''));
  const stringify = vi.spyOn(JSON, 'stringify');
  const { out } = await collapsar(['filter', path, '--json']);
  const longest = Math.max(...stringify.mock.results.map((result) => String(result.value).length));
  stringify.mockRestore();
  expect(longest).toBeLessThan(out.length / 4);
  const found = JSON.parse(out);
  expect(out).toBe(`${JSON.stringify(found, null, 2)}\n`);
  expect(found.groups).toHaveLength(GROUPS);
  expect(found.row_mask).toHaveLength(2 * GROUPS);
  const kept = new Set(found.kept);
  for (const { group, kept: isKept } of found.groups) expect(isKept).toBe(kept.has(group));
  expect(kept.size + found.dropped.length).toBe(GROUPS);
  const names = await collapsar(['filter', path]);
  expect(names.out).toBe(found.kept.map((name: string) => `${name}\n`).join(''));
});
