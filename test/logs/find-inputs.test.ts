// One search of folders that sorts what it meets: it gives for both kinds at once what it gives for each alone.
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type FoundInputs, findInputs, withoutSteps } from '../../src/logs/find-inputs.js';
import type { WantedKinds } from '../../src/logs/input-names.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const folder = temporaryDirectory();
let count = 0;

async function tree(files: readonly string[], links: readonly (readonly [string, string])[] = []): Promise<string> {
  const root = join(folder, `tree${count++}`);
  await mkdir(root);
  for (const file of files) {
    await mkdir(dirname(join(root, file)), { recursive: true });
    await writeFile(join(root, file), '');
  }
  for (const [from, to] of links) {
    await mkdir(dirname(join(root, from)), { recursive: true });
    await symlink(join(root, to), join(root, from)).catch(() => undefined);
  }
  return root;
}

const shownHits = (root: string, { hits }: FoundInputs): string[] =>
  hits.map(({ path, kind, from }) => `${kind}${from === 'name' ? ' named' : ''} ${path.slice(root.length + 1)}`).sort();

const names = fc.constantFrom(
  's_1.safetensors',
  's_2.npz',
  's.npy',
  's.rewards.npy',
  's.json',
  'a.jsonl',
  'b.parquet',
  'c.csv.gz',
  'x.pt',
  'notes.txt',
  '.hidden.jsonl',
);
const folders = fc.constantFrom('', 'r1/', 'r1/eval/', 'r2/', '.git/');
const files = fc.array(
  fc.tuple(folders, names).map(([place, name]) => place + name),
  { maxLength: 10 },
);
/** A link to a file has its ending: one file has one kind. */
const links = fc.array(
  fc.oneof(
    fc.tuple(
      fc.constantFrom('latest', 'r1/link', 'r2/other.jsonl', 'r2/x.npz'),
      fc.constantFrom('r1', 'r2', 'gone', ''),
    ),
    fc
      .tuple(fc.constantFrom('r1', 'r2'), folders, names)
      .map(([from, place, name]) => [`${from}/to_${name}`, place + name] as const),
  ),
  { maxLength: 3 },
);
const asked = fc.subarray(['', 'r1', 'r2', 'r*', '**/*.jsonl', 'r1/s_1.safetensors', 'r1/a.jsonl', 'none'], {
  minLength: 1,
});

describe('findInputs', () => {
  it('gives for both kinds what it gives for each alone, whatever the tree, and each file once', async () => {
    await fc.assert(
      fc.asyncProperty(files, links, asked, fc.constantFrom([], ['a*'], ['r1']), async (all, to, some, exclude) => {
        const root = await tree([...new Set(all)], to);
        const found = (wanted: WantedKinds) =>
          findInputs(
            some.map((path) => join(root, path)),
            { wanted, exclude },
          );
        const [both, steps, logs] = await Promise.all([found('both'), found('steps'), found('logs')]);
        // Of one kind alone a file that is named is of that kind, whatever its name.
        const isOwn = (kind: string) => (hit: string) => hit.startsWith(kind) || hit.startsWith('pickle');
        expect(shownHits(root, both)).toEqual(
          [
            ...shownHits(root, steps).filter((hit) => !/named .*\.jsonl$/.test(hit)),
            ...shownHits(root, logs).filter((hit) => isOwn('log')(hit) && !/named .*\.safetensors$/.test(hit)),
          ].sort(),
        );
        expect(new Set(both.hits.map(({ path }) => path)).size).toBe(both.hits.length);
        const said = new Set([...steps.problems, ...logs.problems].map(({ message }) => message));
        expect(new Set(both.problems.map(({ message }) => message))).toEqual(said);
        await rm(root, { recursive: true });
      }),
      { numRuns: 60 },
    );
  }, 60_000);

  it('says of each folder that was given what lies in it, on whatever way it was met first', async () => {
    const root = await tree(['runs/s_1.safetensors', 'runs/logs/a.jsonl', 'other/x.pt'], [['other/current', 'runs']]);
    const found = await findInputs([join(root, 'runs'), join(root, 'other'), join(root, 'other/*.pt')], {
      wanted: 'both',
    });
    expect(
      found.searched.map((searched) => [
        searched.path.slice(root.length + 1),
        [...searched.hits()].map(({ kind }) => kind),
        withoutSteps(searched, found) === undefined,
      ]),
    ).toEqual([
      ['runs', ['step', 'log'], true],
      ['other', ['pickle', 'step', 'log'], true],
      ['other/*.pt', ['pickle'], false],
    ]);
    expect(found.problems).toEqual([]);
  });

  it('takes a named file by any name: as a log where a reader is forced or its name says so, else as a step', async () => {
    const root = await tree(['a.bin', 'b.jsonl', 'c.safetensors']);
    const paths = ['a.bin', 'b.jsonl', 'c.safetensors'].map((name) => join(root, name));
    const kinds = async (isForced: boolean) =>
      (await findInputs(paths, { wanted: 'both', isForced })).hits.map(({ kind }) => kind);
    expect(await kinds(false)).toEqual(['step', 'log', 'step']);
    expect(await kinds(true)).toEqual(['log', 'log', 'step']);
  });
});
