// Checks that comments are plain: no dialect, no headers that draw an arrow in place of a verb, none of many lines.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { globSync } from 'tinyglobby';
import { COMMENT } from './comment-paths.mjs';
import { root } from './stage.mjs';

/** Folders whose comments are plain throughout. */
const PLAIN = ['bench', 'fuzz', 'scripts', 'src'];

const PHRASES = [
  /(?<!there )\b(?:is|are) no (?!longer|more|less|fewer)/i,
  /\bgo(?:es)? on\b/i,
  /\banew\b/i,
  /\btold\b/i,
  /\bstands? in\b/i,
  /\bso many\b/i,
  /\bwhoever\b/i,
  /\b(?:is|are) through\b/i,
  /\bgrave(?:r|st)?\b/i,
  / -> /,
];

/**
 * @param {string} text  of a file with comments
 * @returns {{ line: number, phrase: string }[]} the phrases of its comments that are not plain
 */
export function dialect(text) {
  return text.split('\n').flatMap((line, at) => {
    const comment = COMMENT.exec(line)?.[1] ?? '';
    return PHRASES.flatMap((phrase) => phrase.exec(comment)?.[0].trim() ?? []).map((phrase) => ({
      line: at + 1,
      phrase,
    }));
  });
}

/** Lines of comment at the head of a file of src; a reader of a trainer's log also says where its fields come from. */
const MOST_HEAD_LINES = 2;
const READERS = 'src/logs/rollouts/formats/';

/**
 * @param {string} text  of a file
 * @returns {number} lines of comment with which it begins
 */
export function headLines(text) {
  return text.split('\n').findIndex((line) => !line.startsWith('//'));
}

/** @returns {string[]} the comments that are not plain, a sentence each */
export function plainWordProblems() {
  const ignore = ['**/node_modules/**', 'scripts/plain-words.mjs'];
  return globSync(`{${PLAIN.join(',')}}/**/*.{ts,tsx,mts,mjs,cjs,py,h,cpp,sh}`, { cwd: root, ignore }).flatMap(
    (file) => {
      const text = readFileSync(join(root, file), 'utf8');
      const long = file.startsWith('src/') && !file.startsWith(READERS) && headLines(text) > MOST_HEAD_LINES;
      return [
        ...(long ? [`${file}:1: the comment at the head has more than ${MOST_HEAD_LINES} lines`] : []),
        ...dialect(text).map(
          ({ line, phrase }) => `${file}:${line}: the comment says "${phrase}": say it in plain words`,
        ),
      ];
    },
  );
}
