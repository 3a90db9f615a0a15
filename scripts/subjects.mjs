// The subjects of commits, which are read as a list: short, and each says what changes.
import { spawnSync } from 'node:child_process';
import { root } from './stage.mjs';

/** History before this is as it is. */
const SINCE = '2026-11-28T00:00:00Z';
const MOST_CHARACTERS = 72;
/** What git and GitHub propose for a merge, or a branch's name alone. */
const BARE_MERGE = /^Merge (\S+$|\S+ into \S+$|(branch|commit|pull request|remote-tracking|tag)\b)/;

/** @returns {string | undefined} what is wrong with a subject */
export function subjectProblem(subject) {
  const { length } = [...subject];
  if (length > MOST_CHARACTERS) return `has ${length} characters, at most ${MOST_CHARACTERS} are read`;
  if (BARE_MERGE.test(subject)) return 'names a merge, expected what it brings';
  return undefined;
}

/** @returns {string[]} what is wrong with the commits that are here, a sentence each; none where there is no history */
export function subjectProblems() {
  const { stdout } = spawnSync('git', ['log', `--since=${SINCE}`, '--format=%h %s'], { cwd: root, encoding: 'utf8' });
  return (stdout ?? '')
    .split('\n')
    .filter(Boolean)
    .map((line) => [line, subjectProblem(line.slice(line.indexOf(' ') + 1))])
    .filter(([, problem]) => problem !== undefined)
    .map(([line, problem]) => `commit ${line}: its subject ${problem}`);
}
