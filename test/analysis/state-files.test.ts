// Manifests and states that are damaged or forged: whatever is done to them, they are refused by a clear error, or are
// equal.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readManifest } from '../../src/analysis/shards/manifest-reader.js';
import { mergeStates } from '../../src/analysis/shards/merge.js';
import { headerLine } from '../../src/analysis/shards/state-file.js';
import { mergedHeader, StateMerge } from '../../src/analysis/shards/state-merge.js';
import { StateError } from '../../src/checks/errors.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { finalized, forge, type Given, mapAll, type PlannedRuns, planRuns, putRuns } from './shards/shards-runs.js';

const directory = temporaryDirectory();
let engine: Engine;
let runs: PlannedRuns;
let state: string;
let expected: Given;

beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
  mkdirSync(join(directory, 'plan'));
  runs = await planRuns(await putRuns(join(directory, 'runs'), [3, 2], 4), join(directory, 'plan'), { shards: 2 });
  state = join(directory, 'merged.state');
  await mergeStates(await mapAll(runs, engine), { out: state });
  expected = await finalized(runs.manifest, state);
});
afterAll(() => engine.dispose());

/** What a file is turned into. */
const damage = fc.oneof(
  fc.record({ kind: fc.constant('flip' as const), at: fc.double({ min: 0, max: 1, noNaN: true }), bit: fc.nat(7) }),
  fc.record({ kind: fc.constant('cut' as const), at: fc.double({ min: 0, max: 1, noNaN: true }), bit: fc.nat(7) }),
  fc.record({ kind: fc.constant('zero' as const), at: fc.double({ min: 0, max: 1, noNaN: true }), bit: fc.nat(7) }),
  fc.record({ kind: fc.constant('longer' as const), at: fc.double({ min: 0, max: 1, noNaN: true }), bit: fc.nat(7) }),
  fc.record({ kind: fc.constant('swap' as const), at: fc.double({ min: 0, max: 1, noNaN: true }), bit: fc.nat(7) }),
);

function damaged(bytes: Buffer, { kind, at, bit }: { kind: string; at: number; bit: number }): Buffer {
  const position = Math.min(bytes.length - 1, Math.floor(at * bytes.length));
  const copy = Buffer.from(bytes);
  if (kind === 'flip') copy[position] = (copy[position] as number) ^ (1 << bit);
  if (kind === 'zero') copy.fill(0, position, Math.min(copy.length, position + 16));
  if (kind === 'cut') return copy.subarray(0, position);
  if (kind === 'longer') return Buffer.concat([copy, copy.subarray(position)]);
  if (kind === 'swap') {
    const lines = copy.toString('latin1').split('\n');
    const line = Math.floor(at * (lines.length - 1));
    [lines[line], lines[bit % lines.length]] = [lines[bit % lines.length] as string, lines[line] as string];
    return Buffer.from(lines.join('\n'), 'latin1');
  }
  return copy;
}

describe('states that are merged', () => {
  it('are open at a time as many as have steps around one of another', async () => {
    const where = join(directory, 'headers');
    mkdirSync(where);
    const span = fc.tuple(fc.nat(30), fc.nat(12)).map(([first, more]) => ({ first, last: first + more }));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(span), { minLength: 1, maxLength: 9 }), async (spans) => {
        const paths = spans.map((each, at) => {
          const none = { steps: 0, first: -1, last: -1, firstRun: -1 };
          const header = each === null ? none : { steps: 1, ...each, firstRun: 0 };
          const path = join(where, `${at}.state`);
          writeFileSync(path, `${headerLine({ manifest: 'm', ...header })}\n`);
          return path;
        });
        const depths = spans.map((at) => {
          const around = spans.filter((each) => at && each && each.first <= at.first && at.first <= each.last);
          return around.length;
        });
        expect((await StateMerge.open(paths)).overlap).toBe(Math.max(...depths));
      }),
      { numRuns: 60 },
    );
  });

  it.skipIf(process.platform !== 'linux')('are closed, read to the end or not', async () => {
    const open = () => readdirSync('/proc/self/fd').length;
    const paths = await mapAll(runs, engine);
    expect(paths.length).toBeGreaterThan(1);
    const before = open();
    const merge = await StateMerge.open(paths);
    expect(open()).toBe(before);
    let lines = 0;
    for await (const _ of merge.lines()) lines++;
    expect(open()).toBe(before);
    for (let stop = 1; stop < lines; stop++) {
      let line = 0;
      for await (const _ of merge.lines()) if (++line === stop) break;
      expect(open()).toBe(before);
    }
    await expect(StateMerge.open([...paths, runs.manifest])).rejects.toThrow(StateError);
    expect(open()).toBe(before);
  });
});

describe('damage', () => {
  const files: [string, () => string][] = [
    ['a state', () => state],
    ['a manifest', () => runs.manifest],
  ];
  it.each(files)('to %s is found', async (what, path) => {
    const whole = readFileSync(path());
    const broken = join(directory, `broken-${what.slice(2)}`);
    await fc.assert(
      fc.asyncProperty(damage, async (how) => {
        const bytes = damaged(whole, how);
        writeFileSync(broken, bytes);
        const giving = what === 'a state' ? finalized(runs.manifest, broken) : finalized(broken, state);
        if (bytes.equals(whole)) {
          expect(await giving).toEqual(expected);
          return;
        }
        // Nothing is given before all is checked.
        await expect(giving).rejects.toThrow(StateError);
        await expect(giving).rejects.toThrow(broken);
      }),
      { numRuns: 250 },
    );
  });

  it.each([
    ['', /no state/],
    ['\n', /no state/],
    ['{}', /no state/],
    ['null\n', /no state/],
    ['{"format":"collapsar/state","version":2,"manifest":"x"}\n', /version 2, this release reads 1/],
    ['{"format":"collapsar/state","version":1}\n', /damaged: its first line/],
    ['{"format":"collapsar/state","version":1,"manifest":"x","steps":1,"first":0,"last":0,"firstRun":0}\n', /damaged/],
    [
      '{"format":"collapsar/state","version":1,"manifest":"x","steps":9,"first":0,"last":3,"firstRun":0}\n',
      /first line/,
    ],
    // Of no steps there is no place, and of some there is a whole one.
    ...[
      { steps: 0, first: 0, last: -1, firstRun: -1 },
      { steps: 0, first: -1, last: 0, firstRun: -1 },
      { steps: 0, first: -1, last: -1, firstRun: 0 },
      { steps: -1, first: -1, last: -1, firstRun: -1 },
      { steps: 1, first: -1, last: 3, firstRun: 0 },
      { steps: 1, first: 0, last: 3, firstRun: -1 },
      { steps: 0.5, first: 0, last: 3, firstRun: 0 },
    ].map((place): [string, RegExp] => [
      `${JSON.stringify({ format: 'collapsar/state', version: 1, manifest: 'x', ...place })}\n`,
      /damaged: its first line/,
    ]),
  ])('a state of %j is refused', async (text, message) => {
    const path = join(directory, 'odd.state');
    writeFileSync(path, text);
    await expect(mergeStates([path], { out: join(directory, 'out') })).rejects.toThrow(message);
  });

  it.each([
    ['', /no manifest/],
    ['[]', /no manifest/],
    ['{"format":"collapsar/manifest","version":3,\n', /version 3, this release reads 1/],
    ['{"format":"collapsar/manifest","version":1,\n', /damaged: its first line/],
    [
      '{"format":"collapsar/manifest","version":1,"collapsar":"1","directory":"/",\n',
      /damaged: its first line: settings is undefined/,
    ],
  ])('a manifest of %j is refused', async (text, message) => {
    const path = join(directory, 'odd.json');
    writeFileSync(path, text);
    await expect(readManifest(path)).rejects.toThrow(message);
  });
});

describe('forgery with a right checksum', () => {
  it.each<[string, (text: string) => string]>([
    ['another format', (text) => text.replace('collapsar/state', 'collapsar/other')],
    ['another number of steps', (text) => text.replace('"steps":5', '"steps":4')],
    ['a step left out', (text) => text.replace(/\{"run":0,"index":1.*\n/, '')],
    ['a step twice', (text) => text.replace(/(\{"run":0,"index":1.*\n)/, '$1$1')],
    [
      'an index beyond the manifest',
      (text) => text.replace('"index":4', '"index":40').replace('"last":4', '"last":40'),
    ],
    ['aggregates left out', (text) => text.replace(/\{"run":0,"name".*\n/, '')],
    ['aggregates of another run', (text) => text.replace('{"run":1,"name":"b"', '{"run":1,"name":"c"')],
    ['a sum that is none', (text) => text.replace(/"sum":"[^"]*"/, '"sum":"x"')],
    ['a count that is none', (text) => text.replace(/"nonFinite":\[0/, '"nonFinite":[-1')],
    ['a measurement that is none', (text) => text.replace(/("index":0,"measurement":).*\n/, '$1null}\n')],
    ['metrics that are none', (text) => text.replace(/"logged":\{/, '"logged":{"x":"y",')],
    ['no metrics', (text) => text.replace(/("index":0,"measurement":).*\n/, '$1{"notes":[]}}\n')],
    ['a failure that is none', (text) => text.replace(/"failure":\{.*\n/, '"failure":{"problem":3}}\n')],
    ['no JSON', (text) => text.replace(/("index":0,"measurement":).*\n/, '$1{{}\n')],
    ['a line of another kind', (text) => text.replace(/\{"run":0,"index":1/, '{"index":1')],
    ['other counts at the end', (text) => text.replace('"failures":1,"runs"', '"failures":0,"runs"')],
    ['aggregates twice', (text) => text.replace(/(\{"run":0,"name".*\n)/, '$1$1').replace('"runs":2', '"runs":3')],
    ['aggregates under another run’s number', (text) => text.replace('{"run":0,"name"', '{"run":1,"name"')],
    ['aggregates before the last step', (text) => text.replace(/(\{"run":0,"index":2.*\n)(.*\n)/, '$2$1')],
    ['a step under another run’s number', (text) => text.replace('{"run":0,"index":1', '{"run":1,"index":1')],
    ['another first run', (text) => text.replace('"firstRun":0', '"firstRun":1')],
    ['another last step', (text) => text.replace('"last":4', '"last":5')],
    ['a line after the end', (text) => `${text}\n{"run":9,`],
  ])('%s: the state is refused', async (_, change) => {
    const path = join(directory, 'forged.state');
    forge(state, path, change);
    expect(readFileSync(path, 'utf8')).not.toBe(readFileSync(state, 'utf8'));
    await expect(finalized(runs.manifest, path)).rejects.toThrow(StateError);
  });

  it.each<[string, (text: string) => string]>([
    ['a step of no run', (text) => text.replace('"run":1', '"run":7')],
    ['runs out of order', (text) => text.replace('"run":1', '"run":0').replace('"run":0', '"run":1')],
    ['a negative size', (text) => text.replace(/"bytes":\d+,"identity"/, '"bytes":-1,"identity"')],
    ['no identity', (text) => text.replace(/"identity":"[^"]*"/, '"identity":7')],
    ['shards that overlap', (text) => text.replace('"first":2', '"first":1')],
    ['shards that do not reach the end', (text) => text.replace(/(\{"first":[1-9]\d*,"steps":)\d+/, '$11')],
    ['a list in another place', (text) => text.replace('"runs":[', '"walks":[')],
    ['a comma too many', (text) => text.replace('}\n],\n"runs"', '},\n],\n"runs"')],
    ['a comma too few', (text) => text.replace('},\n', '}\n')],
    ['other settings', (text) => text.replace('"seed":5', '"seed":-5')],
    ['an element that is none', (text) => text.replace(/\{"first":0.*\n/, '7,\n')],
    ['more after the lists', (text) => `${text}"x":1,`],
  ])('%s: the manifest is refused', async (_, change) => {
    const path = join(directory, 'forged.json');
    forge(runs.manifest, path, change);
    expect(readFileSync(path, 'utf8')).not.toBe(readFileSync(runs.manifest, 'utf8'));
    await expect(readManifest(path)).rejects.toThrow(StateError);
    await expect(finalized(path, state)).rejects.toThrow(StateError);
  });

  it('of a manifest makes it another one: states of the first do not fit', async () => {
    const path = join(directory, 'forged.json');
    forge(runs.manifest, path, (text) => text.replace('"seed":5', '"seed":6'));
    await expect(finalized(path, state)).rejects.toThrow(/another manifest/);
  });
});

it('the header of very many states is that of their union', () => {
  // In shards of 2 GiB a petabyte has 496,682 (docs/guide/terabytes.md).
  const sources = Array.from({ length: 500_000 }, (_, at) => {
    const first = 3 * ((at * 7919) % 500_000);
    const header = { manifest: 'x', steps: 3, first, last: first + 2, firstRun: Math.floor(first / 1000) };
    return { header: at % 10 === 0 ? { manifest: 'x', steps: 0, first: -1, last: -1, firstRun: -1 } : header };
  });
  const filled = sources.flatMap(({ header }) => (header.steps > 0 ? [header] : []));
  const sorted = filled.map(({ first }) => first).sort((a, b) => a - b);
  expect(mergedHeader(sources)).toEqual({
    manifest: 'x',
    steps: 3 * filled.length,
    first: sorted[0],
    last: (sorted.at(-1) as number) + 2,
    firstRun: Math.floor((sorted[0] as number) / 1000),
  });
  expect(mergedHeader(sources.slice(0, 1))).toEqual(sources[0]?.header);
});
