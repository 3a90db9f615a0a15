// What plan, map and merge leave when they are killed: the next run takes it away, and nothing that is still written.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mergeStates } from '../../../src/analysis/shards/merge.js';
import { plan } from '../../../src/analysis/shards/plan.js';
import { partsPath, writerMark } from '../../../src/analysis/shards/unfinished-files.js';
import type { Engine } from '../../../src/engine/engine.js';
import { openEngine } from '../../../src/engine/open-engine.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { mapAll, mapOne, type PlannedRuns, planRuns, putRuns } from './shards-runs.js';

const directory = temporaryDirectory();
const folder = () => mkdtempSync(join(directory, 'x'));

let engine: Engine;
let source: string;
let runs: PlannedRuns;
let states: string[];

beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
  source = await putRuns(join(directory, 'runs'), [3]);
  mkdirSync(join(directory, 'plan'));
  runs = await planRuns(source, join(directory, 'plan'), { shards: 3 });
  states = await mapAll(runs, engine);
});
afterAll(() => engine.dispose());

/** What a process was writing for `path` when it was killed: a file, and a directory with a part in it. */
function leave(path: string, markOf: (mark: string) => string): string[] {
  const start = join(dirname(path), `.${basename(path)}.`);
  const file = `${start}${markOf(writerMark())}.tmp`;
  const parts = `${start}${markOf(writerMark())}.parts`;
  mkdirSync(parts, { recursive: true });
  for (const name of [file, join(parts, '0-0')]) writeFileSync(name, 'half');
  return [file, parts];
}

/** The number of a process that has ended. */
const goneMark = (mark: string): string => mark.replace(/^\d+/, String(spawnSync('true').pid));
const reusedMark = (mark: string): string => mark.replace(/^(\d+)-\d+/, '$1-1');
const foreignMark = (mark: string): string => mark.replace(/^(\d+-\d*)-\w{8}/, '$1-00000000');

const WRITERS: [string, (out: string) => Promise<unknown>][] = [
  ['plan', (out) => plan(source, { out })],
  ['merge', (out) => mergeStates(states, { out })],
];

describe.skipIf(process.platform !== 'linux').each(WRITERS)('%s', (_, write) => {
  it('removes what a killed one left', async () => {
    const out = join(folder(), 'out');
    leave(out, goneMark);
    // The same number, given to a later process.
    leave(out, reusedMark);
    await write(out);
    expect(readdirSync(dirname(out))).toEqual(['out']);
  });

  it('leaves what is still written, and what is not its own', async () => {
    const out = join(folder(), 'out');
    const kept = [
      ...leave(out, (mark) => mark),
      ...leave(`${out}.other`, goneMark),
      join(dirname(out), '.out.notes.tmp'),
    ];
    writeFileSync(kept.at(-1) as string, 'notes');
    await write(out);
    expect(kept.filter((path) => !existsSync(path))).toEqual([]);
  });

  it('leaves what another machine writes, but not what it has not touched for a day', async () => {
    const out = join(folder(), 'out');
    const kept = leave(out, foreignMark);
    const old = leave(out, foreignMark);
    const longAgo = Date.now() / 1000 - 25 * 3600;
    for (const path of old) utimesSync(path, longAgo, longAgo);
    await write(out);
    expect([...kept, ...old].filter((path) => existsSync(path))).toEqual(kept);
  });
});

it('merge writes its parts where the next one finds them', async () => {
  const out = join(folder(), 'out');
  // States that lie across each other need parts.
  const crossed = [join(dirname(out), 'a'), join(dirname(out), 'b')];
  await mergeStates([states[0] as string, states[2] as string], { out: crossed[0] as string });
  let seen: string[] = [];
  await mergeStates([crossed[0] as string, states[1] as string], {
    out,
    onProgress: () => {
      seen = readdirSync(dirname(out));
    },
  });
  expect(seen.some((name) => /^\.out\..*\.tmp$/.test(name))).toBe(true);
  expect(readdirSync(dirname(out)).sort()).toEqual(['a', 'out']);
  expect(basename(partsPath(out))).toMatch(/^\.out\.\d+-\d*-[0-9a-f]{8}-[0-9a-f]{8}\.parts$/);
});

it.skipIf(process.platform !== 'linux')('map removes it, too', async () => {
  const again = { ...runs, states: join(folder(), 'states') };
  const [state] = await mapAll(again, engine);
  const left = leave(state as string, goneMark);
  await mapOne(again, engine, 0);
  expect(left.filter((path) => existsSync(path))).toEqual([]);
});
