// The rule of lint about phrases of comments.
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot as root } from '../../src/checks/package-root.js';

const { dialect, headLines } = (await import(join(root, 'scripts', 'plain-words.mjs'))) as {
  dialect: (text: string) => { line: number; phrase: string }[];
  headLines: (text: string) => number;
};

describe('phrases of comments', () => {
  it.each([
    ['// Rows -> their sums.', '->'],
    ['// A file that is no log.', 'is no'],
    ['const a = 1; // whoever calls it waits', 'whoever'],
    [' * takes so many rows', 'so many'],
    ['# what stands in the table', 'stands in'],
    ['/** The gravest first. */', 'gravest'],
  ])('are found in %j', (line, phrase) => {
    expect(dialect(`first\n${line}\n`)).toEqual([{ line: 2, phrase }]);
  });

  it.each([
    '// There is no such file, and it is no longer missed.',
    'const arrow = "a -> b";',
    '// Sums the tokens of each row.',
  ])('are not found in %j', (line) => {
    expect(dialect(line)).toEqual([]);
  });
});

describe('comments at the head of a file', () => {
  it('are counted in lines', () => {
    expect(headLines('// Sums tokens\n// of a step.\nconst a = 1; // one\n')).toBe(2);
    expect(headLines('const a = 1;\n// Sums tokens.\n')).toBe(0);
  });
});
