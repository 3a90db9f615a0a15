// The paths that comments name: each leads to a file of the repository, so that a file that moves takes them along.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { globSync } from 'tinyglobby';
import { root } from './stage.mjs';

const COMMENTED = '{bench,examples,fuzz,native,python,scripts,src,test}/**/*.{ts,tsx,mts,mjs,cjs,py,h,cpp,cu,cuh,sh}';
/** Files that only we would mean; a .py is mostly a trainer's. */
const OURS = /\.(ts|tsx|mts|mjs|cjs|cpp|h|cu|cuh)$/;
/** Where files of other kinds are ours. */
const FOLDERS = /^(bench|docs|examples|grafana|python)\//;
export const COMMENT = /(?:^|\s)(?:\/\/|\/?\*+|#)\s+(.*)$/;
const PATH =
  /(?<![\w:/.@{}<*$%-])(?:[\w-]+\/)*[\w.-]+\.(?:ts|tsx|mts|mjs|cjs|py|cpp|h|cu|cuh|md|json|sh)\b(?![\w/*({}-])/g;

/** What paths of comments are looked up in: all files of the repository, and the names of its folders. */
export const treeOf = (files) => ({ files, folders: new Set(files.flatMap((file) => file.split('/').slice(0, -1))) });

/**
 * @param {string} text  of a file with comments
 * @param {ReturnType<typeof treeOf>} tree
 * @returns {{ line: number, path: string }[]} what is named and is not there
 */
export function deadPaths(text, { files, folders }) {
  const isOurs = (path) =>
    OURS.test(path) ? !path.includes('/') || folders.has(path.split('/')[0]) : FOLDERS.test(path);
  const isThere = (path) => files.some((file) => file === path || file.endsWith(`/${path}`));
  return text.split('\n').flatMap((line, at) => {
    const comment = COMMENT.exec(line)?.[1] ?? '';
    return [...comment.matchAll(PATH)]
      .filter(([path]) => isOurs(path) && !isThere(path))
      .map(([path]) => ({ line: at + 1, path }));
  });
}

/** @returns {string[]} the comments that name a file that is not there, a sentence each */
export function commentPathProblems() {
  const ignore = ['**/node_modules/**', 'build/**', 'dist/**', '**/__pycache__/**'];
  const tree = treeOf(globSync('**/*', { cwd: root, ignore, dot: true }));
  return globSync(COMMENTED, { cwd: root, ignore }).flatMap((file) =>
    deadPaths(readFileSync(join(root, file), 'utf8'), tree).map(
      ({ line, path }) => `${file}:${line}: the comment names ${path}, which is not there`,
    ),
  );
}
