// Rules of the tree that no linter knows: rooms depend downwards only, no file imports itself through others (types
// included), no folder has more files than one takes in at a look, and nothing tells to install another's package.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative, sep } from 'node:path';
import { globSync } from 'tinyglobby';
import { root } from './stage.mjs';

/**
 * The rooms of src, from the highest down: each may import from those below it. Rooms of one line know nothing of each
 * other.
 */
const ROOMS = [
  ['exports', 'cli'],
  ['serve'],
  ['report', 'sinks', 'cluster'],
  ['analysis'],
  ['monitor'],
  ['step'],
  ['verdicts'],
  ['filter', 'metrics', 'logs', 'scoring'],
  ['engine'],
  ['checks'],
];
/** Within one line of ROOMS, what may import what all the same. */
const BESIDE = new Set(['filter > metrics', 'scoring > logs', 'scoring > metrics', 'sinks > report']);
const MOST_FILES = 16;

/** @returns {string[]} what is wrong with the tree, a sentence each */
export function houseProblems() {
  const imports = readImports();
  return [...directionProblems(imports), ...circleProblems(imports), ...folderProblems(), ...packageProblems()];
}

/** Which file of src imports which. */
function readImports() {
  const source = join(root, 'src');
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((name) => /\.tsx?$/.test(name));
  return new Map(
    files.map((file) => {
      const text = readFileSync(join(source, file), 'utf8');
      const specifiers = [...text.matchAll(/\b(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map(([, specifier]) => specifier);
      const targets = specifiers.map((specifier) => normalize(join(dirname(file), specifier)));
      return [file, targets.map((target) => sourceOf(target, files))];
    }),
  );
}

/** What a specifier means: a component's source ends otherwise. */
const sourceOf = (target, files) =>
  ['.tsx', '.ts'].map((end) => target.replace(/\.js$/, end)).find((file) => files.includes(file)) ?? target;

const roomOf = (file) => (file.includes(sep) ? file.slice(0, file.indexOf(sep)) : undefined);
const floorOf = (room) => ROOMS.findIndex((floor) => floor.includes(room));

function* directionProblems(imports) {
  for (const [file, targets] of imports) {
    const room = roomOf(file);
    if (room === undefined) continue; // the package's entries may name all
    if (floorOf(room) < 0) yield `src/${room}: no room of the house; give it a place in scripts/house.mjs`;
    for (const target of targets) {
      const other = roomOf(target);
      if (other === room) continue;
      const isBelow = floorOf(other) > floorOf(room) || BESIDE.has(`${room} > ${other}`);
      if (other === undefined || !isBelow) yield `src/${file} imports src/${target}: ${room} may not depend on it`;
    }
  }
}

/** Circles by Tarjan's strongly connected components. */
function* circleProblems(imports) {
  const index = new Map();
  const lowest = new Map();
  const stack = [];
  const circles = [];
  const visit = (file) => {
    index.set(file, index.size);
    lowest.set(file, index.get(file));
    stack.push(file);
    for (const target of imports.get(file) ?? []) {
      if (!index.has(target)) visit(target);
      if (stack.includes(target)) lowest.set(file, Math.min(lowest.get(file), lowest.get(target)));
    }
    if (lowest.get(file) === index.get(file)) circles.push(stack.splice(stack.indexOf(file)));
  };
  for (const file of imports.keys()) if (!index.has(file)) visit(file);
  for (const circle of circles) {
    if (circle.length > 1) yield `these import one another in a circle: ${circle.join(', ')}`;
  }
}

function* folderProblems() {
  for (const entry of readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })) {
    if (!entry.isDirectory()) continue;
    const folder = join(entry.parentPath, entry.name);
    if (entry.name === 'seeds') continue; // inputs of the fuzzer beside their reader, counted by their test
    const count = readdirSync(folder, { withFileTypes: true }).filter((file) => file.isFile()).length;
    if (count > MOST_FILES) yield `${relative(root, folder)} has ${count} files, more than ${MOST_FILES}`;
  }
}

/** The collapsar of PyPI is somebody else's: ours is collapsar-rl. */
const FOREIGN = /\b(?:pip3?|pipx|uv|uv pip)\s+(?:install|add|download)\s[^\n`|;&]*?(?<![-./\w])collapsar(?![-./\w])/g;

/** @returns {string[]} what of a text tells to install it */
export const foreignPackage = (text) => [...text.matchAll(FOREIGN)].map(([found]) => found);

function* packageProblems() {
  const files = globSync(['*.md', '{.ci,.github,docs,examples,bench,grafana,python,scripts,src}/**/*'], {
    cwd: root,
    ignore: ['**/__pycache__/**'],
    dot: true,
  });
  for (const file of files) {
    for (const found of foreignPackage(readFileSync(join(root, file), 'utf8'))) {
      yield `${file}: "${found}" installs somebody else's package; ours is collapsar-rl`;
    }
  }
}
