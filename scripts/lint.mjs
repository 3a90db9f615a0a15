// Style and lint of TypeScript, JavaScript and JSON (Biome), and of C++ (clang-format, where there is one).
import { readFileSync } from 'node:fs';
import { globSync } from 'tinyglobby';
import { commentPathProblems } from './comment-paths.mjs';
import { houseProblems } from './house.mjs';
import { plainWordProblems } from './plain-words.mjs';
import { signatureProblems } from './signatures.mjs';
import { check, root, run, skip, tool, versionOf } from './stage.mjs';
import { subjectProblems } from './subjects.mjs';

await run(tool('biome'), ['check', '--error-on-warnings', '.']);

const problems = [...houseProblems(), ...commentPathProblems(), ...plainWordProblems()];
check(problems.length === 0, problems.join('\n'));

const signatures = signatureProblems();
check(signatures.length === 0, signatures.join('\n'));

const subjects = subjectProblems();
check(subjects.length === 0, subjects.join('\n'));

const native = globSync('native/**/*.{h,cpp,cu,cuh}', { cwd: root });
// The house's own rules that no formatter knows.
for (const file of native) {
  readFileSync(`${root}/${file}`, 'utf8')
    .split('\n')
    .forEach((line, index) => {
      const at = `${file}:${index + 1}`;
      check([...line].length <= 120, `${at}: longer than 120 columns`);
      check(!/\s$/.test(line) && !line.includes('\t'), `${at}: a tab, or a space at the end of the line`);
    });
}
// Versions differ in details: only the one that the sources were formatted with may judge them.
const formatter = 14;
const found = ['clang-format', `clang-format-${formatter}`].find((command) =>
  versionOf(command)?.includes(`version ${formatter}.`),
);
if (found === undefined) skip(`C++ formatting (there is no clang-format ${formatter} here)`);
else await run(found, ['--dry-run', '--Werror', ...native]);
