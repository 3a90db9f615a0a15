// The rule of lint about paths in comments.
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot as root } from '../../src/checks/package-root.js';

const { deadPaths, commentPathProblems, treeOf } = (await import(join(root, 'scripts', 'comment-paths.mjs'))) as {
  treeOf: (files: string[]) => object;
  deadPaths: (text: string, tree: object) => { line: number; path: string }[];
  commentPathProblems: () => string[];
};

const tree = treeOf([
  'src/engine/operations/row-stats.ts',
  'docs/reference/metrics.md',
  'native/engine/simd/vec_gcc.h',
]);

// Not read as comments of this file.
const [star, slashes] = [' *', '//'];

describe('paths in comments', () => {
  it('lead somewhere in the whole repository', () => {
    expect(commentPathProblems()).toEqual([]);
  });

  it.each([
    '// In the order of src/engine/operations/packed-results.ts.',
    '// as operations/packed-results.ts has it',
    `${star} (docs/metrics.md)`,
    `const one = 1; ${slashes} see packed.mjs`,
    '# docs/metrics.md says what it is',
    '/** Of engine/vec.h. */',
  ])('are found to be dead in %j', (line) => {
    expect(deadPaths(`first\n${line}\n`, tree)).toEqual([{ line: 2, path: expect.any(String) }]);
  });

  it.each([
    '// In the order of src/engine/operations/row-stats.ts.',
    '// as operations/row-stats.ts has it; row-stats.ts, too',
    ' * (docs/reference/metrics.md, vec_gcc.h)',
    "import one from './packed.js'; const path = 'src/packed.ts';",
    '// torch/csrc/StorageSharing.cpp, verl/trainer/ppo/ray_trainer.py and tokenizer.json are of others',
    '// https://example.org/src/engine/packed.ts',
  ])('are left alone in %j', (line) => {
    expect(deadPaths(line, tree)).toEqual([]);
  });
});
