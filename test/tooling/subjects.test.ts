// The rule of lint about the subjects of commits.
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot as root } from '../../src/checks/package-root.js';

const { subjectProblem } = (await import(join(root, 'scripts', 'subjects.mjs'))) as {
  subjectProblem: (subject: string) => string | undefined;
};

describe('subjectProblem', () => {
  it.each(['Merge of sums is exact', 'Merge steps that two shards measured', 'a'.repeat(72), 'é'.repeat(72)])(
    'takes %j',
    (subject) => {
      expect(subjectProblem(subject)).toBeUndefined();
    },
  );

  it.each([
    ['a'.repeat(73), /73 characters/],
    ['Merge hot', /names a merge/],
    ['Merge 1c05e4d', /names a merge/],
    ["Merge branch 'hot' into main", /names a merge/],
    ['Merge pull request #12 from someone/hot', /names a merge/],
    ['Merge 1c05e4d into 2d16f5e', /names a merge/],
  ])('refuses %j', (subject, problem) => {
    expect(subjectProblem(subject)).toMatch(problem);
  });
});
