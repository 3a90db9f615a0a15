// What was measured before a kill is not measured again, and nothing else comes of it: journal, lock, and both at work.
import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { analyze } from '../../src/analysis/analyze.js';
import { measureOptions } from '../../src/analysis/measuring/measure-options.js';
import { DirectoryLock } from '../../src/analysis/results/directory-lock.js';
import { ResultDirectory } from '../../src/analysis/results/result-directory.js';
import { Journal, type JournalOptions } from '../../src/analysis/store/journal.js';
import type { JournalStep } from '../../src/analysis/store/journal-lines.js';
import { FileError } from '../../src/checks/errors.js';
import { Interrupted } from '../../src/cli/output/streams.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import type { StepMeasurement } from '../../src/step/step-measurement.js';
import { collapsar, keeping } from '../cli/cli-streams.js';
import { elementOf, putStep, smallStep } from '../support/analysis-logs.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const directory = temporaryDirectory();
const folder = () => mkdtempSync(join(directory, 'x'));
const JOURNAL = '.collapsar-journal';

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ threads: 1 });
});
afterAll(() => engine.dispose());

const options: JournalOptions = { version: '1.2.3', measuring: measureOptions({ seed: 5 }) };
const stepOf = (at: number): JournalStep => ({ key: `logs/step ${at}\t"x".safetensors`, identity: `10-${at}` });

/** With all that JSON alone would lose. Its step has the number `at`. */
const measurementOf = (at: number): StepMeasurement => ({
  metrics: [],
  notes: [`step ${at}`, 'é\n\t'],
  reading: {
    step: at,
    success: -0,
    rewardRange: { lowest: Number.NEGATIVE_INFINITY, highest: null },
    prompts: [
      {
        group: 2n ** 63n,
        rewardMean: Number.NaN,
        rewardStd: 0.5,
        size: 2,
        behaviours: null,
        low: false,
        successes: null,
      },
    ],
    specificity: null,
    actionInformation: null,
    reasoningInformation: null,
    oscillation: null,
    grounding: null,
    filterKeptRatio: null,
    figures: null,
  },
});

async function journalWith(steps: number): Promise<string> {
  const where = folder();
  const journal = await Journal.open(where, options);
  for (let at = 0; at < steps; at++) await journal.keep(stepOf(at), measurementOf(at));
  await journal.close();
  return where;
}

describe('the journal', () => {
  it('cut off at any byte has every line before the cut, and goes on from there', async () => {
    const whole = readFileSync(join(await journalWith(6), JOURNAL));
    await fc.assert(
      fc.asyncProperty(fc.nat({ max: whole.length }), async (length) => {
        const where = folder();
        writeFileSync(join(where, JOURNAL), whole.subarray(0, length));
        const lines = whole.subarray(0, length).toString().split('\n').length - 1;
        const journal = await Journal.open(where, options);
        expect(journal.startedAnew).toBeUndefined();
        expect(journal.resumed).toBe(Math.max(0, lines - 1));
        for (let at = 0; at < 6; at++) {
          expect(await journal.find(stepOf(at))).toEqual(at < lines - 1 ? measurementOf(at) : undefined);
          if (at >= lines - 1) await journal.keep(stepOf(at), measurementOf(at));
        }
        await journal.close();
        expect(readFileSync(join(where, JOURNAL)).equals(whole)).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it('holds no more than a piece in memory: what is larger is in the file when it is kept', async () => {
    const where = folder();
    const journal = await Journal.open(where, options);
    const written = () => statSync(join(where, JOURNAL)).size;
    const before = written();
    const notes = (characters: number) => ({ ...measurementOf(0), notes: ['x'.repeat(characters)] }) as StepMeasurement;
    // Two halves of a piece are one, too; a timer would come only after this turn of the event loop.
    await Promise.all([journal.keep(stepOf(0), notes(40_000)), journal.keep(stepOf(1), notes(40_000))]);
    expect(written()).toBeGreaterThan(before + 80_000);
    await journal.close();
  });

  it('with a damaged line loses that line alone', async () => {
    const where = await journalWith(6);
    const bytes = readFileSync(join(where, JOURNAL));
    const third = bytes.toString('latin1').split('\n').slice(0, 3).join('\n').length;
    bytes[third + 40] = (bytes[third + 40] as number) ^ 1;
    writeFileSync(join(where, JOURNAL), bytes);
    const journal = await Journal.open(where, options);
    expect(journal.resumed).toBe(5);
    const found = await Promise.all([0, 1, 2, 3, 4, 5].map((at) => journal.find(stepOf(at))));
    expect(found.map((measurement) => measurement !== undefined)).toEqual([true, true, false, true, true, true]);
    await journal.close();
  });

  it('does not take another content for the one that was measured, and of two the later', async () => {
    const where = await journalWith(2);
    const journal = await Journal.open(where, options);
    const changed = { ...stepOf(1), identity: '11-1' };
    expect(journal.has(changed)).toBe(false);
    expect(await journal.find(changed)).toBeUndefined();
    await journal.keep(changed, measurementOf(7));
    await journal.close();
    const again = await Journal.open(where, options);
    expect(await again.find(changed)).toEqual(measurementOf(7));
    expect(await again.find(stepOf(1))).toBeUndefined();
    await again.close();
  });

  it.each([
    [{ ...options, version: '1.2.4' }, 'version 1.2.3, this is 1.2.4'],
    [{ ...options, measuring: measureOptions({ seed: 6 }) }, 'other options: seed 5'],
    [{ ...options, measuring: measureOptions({ seed: 5, profile: 'ragen' }) }, 'other options: profile strict'],
  ])('of %j starts anew and says why', async (other, why) => {
    const where = await journalWith(3);
    const journal = await Journal.open(where, other);
    expect(journal.startedAnew).toContain(why);
    expect(journal.resumed).toBe(0);
    expect(await journal.find(stepOf(0))).toBeUndefined();
    await journal.keep(stepOf(0), measurementOf(9));
    await journal.close();
    const again = await Journal.open(where, other);
    expect(await again.find(stepOf(0))).toEqual(measurementOf(9));
    await again.close();
  });

  it('that is something else, or is not wanted, is begun anew', async () => {
    const where = folder();
    writeFileSync(join(where, JOURNAL), 'what a user put here\n');
    const journal = await Journal.open(where, options);
    expect(journal.startedAnew).toContain('cannot be read');
    await journal.close();
    // Nothing was measured: nothing stays.
    expect(readdirSync(where)).toEqual([]);
    const unwanted = await Journal.open(await journalWith(3), { ...options, resume: false });
    expect(unwanted.resumed).toBe(0);
    await unwanted.remove();
  });

  it('of which lines are whole, but not in their place, is taken for what it holds', async () => {
    const whole = readFileSync(join(await journalWith(2), JOURNAL));
    const where = folder();
    const twice = join(where, JOURNAL);
    writeFileSync(twice, Buffer.concat([whole, whole]));
    const journal = await Journal.open(where, options);
    expect(journal.resumed).toBe(2);
    expect(await journal.find(stepOf(1))).toEqual(measurementOf(1));
    await journal.close();
    const head = whole.indexOf(0x0a) + 1;
    writeFileSync(twice, Buffer.concat([whole.subarray(head), whole.subarray(0, head)]));
    const other = await Journal.open(where, options);
    expect(other.startedAnew).toContain('cannot be read');
    await other.close();
  });

  it('that cannot be written says so, and what was kept stays', async () => {
    const where = await journalWith(3);
    const journal = await Journal.open(where, options);
    // As if the disk failed: the file is no longer open.
    await journal.close();
    await expect(
      (async () => {
        for (let at = 3; at < 100; at++) {
          await journal.keep(stepOf(at), measurementOf(at));
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      })(),
    ).rejects.toThrow(/cannot write here: .*The steps measured so far are kept: the same command continues/);
    const again = await Journal.open(where, options);
    expect(again.resumed).toBe(3);
    await again.close();
  });
});

describe('the lock', () => {
  const claims = (where: string) => readdirSync(where).filter((name) => name.startsWith('.collapsar-lock-'));

  /** The name of a claim of this process, with some parts replaced. */
  async function claim(where: string, change: (parts: string[]) => string[]): Promise<string> {
    const lock = await DirectoryLock.take(where);
    const [name] = claims(where) as [string];
    await lock.release();
    const path = join(where, change(name.split('~')).join('~'));
    writeFileSync(path, '');
    return path;
  }

  it('is one process’s at a time, among whatever files', async () => {
    const where = folder();
    // In the order of the file system, before its claim and behind.
    for (let file = 0; file < 40; file++) writeFileSync(join(where, `${file}.json`), '');
    const lock = await DirectoryLock.take(where);
    await expect(DirectoryLock.take(where)).rejects.toThrow(
      `${where}: process ${process.pid} is writing its results here: wait for it to end, or name another directory`,
    );
    await lock.release();
    expect(claims(where)).toEqual([]);
    await (await DirectoryLock.take(where)).release();
  });

  it('of many that come at once is one’s at most', async () => {
    const where = folder();
    let held = 0;
    let most = 0;
    const outcomes = await Promise.all(
      Array.from({ length: 6 }, async () => {
        try {
          const lock = await DirectoryLock.take(where);
          most = Math.max(most, ++held);
          await new Promise((resolve) => setTimeout(resolve, 5));
          held--;
          await lock.release();
          return 'held';
        } catch (error) {
          return error instanceof FileError ? 'refused' : error;
        }
      }),
    );
    expect(most).toBeLessThanOrEqual(1);
    expect(outcomes.filter((outcome) => outcome !== 'held' && outcome !== 'refused')).toEqual([]);
    expect(claims(where)).toEqual([]);
  });

  it.skipIf(process.platform !== 'linux')('of a process that is gone does not count', async () => {
    const where = folder();
    const { pid } = spawnSync('true');
    await claim(where, (parts) => [`.collapsar-lock-${pid}`, ...parts.slice(1)]);
    // The same number, given to a later process.
    await claim(where, ([first, , ...rest]) => [first as string, '1', ...rest]);
    const lock = await DirectoryLock.take(where);
    expect(claims(where)).toHaveLength(1);
    await lock.release();
  });

  it('is no file of another kind, whatever its name begins with', async () => {
    const where = folder();
    for (const name of ['notes', '', '12~3', 'NaN~1~w~00000000~h', '0~1~w~00000000~h']) {
      writeFileSync(join(where, `.collapsar-lock-${name}`), '');
    }
    await (await DirectoryLock.take(where)).release();
    expect(claims(where)).toHaveLength(5);
  });

  it.skipIf(process.platform !== 'linux')(
    'that cannot be removed does not count when its process is gone',
    async () => {
      const where = folder();
      const { pid } = spawnSync('true');
      const path = await claim(where, (parts) => [`.collapsar-lock-${pid}`, ...parts.slice(1)]);
      rmSync(path);
      mkdirSync(path);
      await (await DirectoryLock.take(where)).release();
      expect(claims(where)).toHaveLength(1);
    },
  );

  it('of a directory that is not there is told of as such', async () => {
    await expect(DirectoryLock.take(join(folder(), 'gone'))).rejects.toBeInstanceOf(FileError);
  });

  it('is given a sign of life every five seconds, until it is released', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    try {
      const where = folder();
      const lock = await DirectoryLock.take(where);
      const path = join(where, claims(where)[0] as string);
      const longAgo = Date.now() / 1000 - 120;
      for (let sign = 0; sign < 2; sign++) {
        utimesSync(path, longAgo, longAgo);
        vi.advanceTimersByTime(4900);
        await new Promise(setImmediate);
        expect(Math.abs(statSync(path).mtimeMs / 1000 - longAgo)).toBeLessThan(1);
        vi.advanceTimersByTime(100);
        await expect.poll(() => statSync(path).mtimeMs / 1000).toBeGreaterThan(longAgo + 60);
      }
      expect(vi.getTimerCount()).toBe(1);
      await lock.release();
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  it('of another machine counts as long as it gives signs of life', async () => {
    const where = folder();
    const path = await claim(where, ([pid, start, , random]) => [
      pid as string,
      start as string,
      'elsewhere.1',
      random as string,
      'node-7',
    ]);
    await expect(DirectoryLock.take(where)).rejects.toThrow(/on node-7 is writing its results here/);
    const longAgo = Date.now() / 1000 - 120;
    utimesSync(path, longAgo, longAgo);
    await (await DirectoryLock.take(where)).release();
    expect(existsSync(path)).toBe(false);
  });
});

describe('analyze with a journal', () => {
  /** Sets a time that can be set again: then a rewrite in place is not seen. */
  const settle = (path: string) => utimesSync(path, 1_700_000_000, 1_700_000_000);

  async function logs(steps: number): Promise<string> {
    const where = folder();
    for (let step = 1; step <= steps; step++) {
      settle(await putStep(join(where, 'run', `${step}.safetensors`), smallStep(step, step / 10)));
    }
    return join(where, 'run');
  }

  const measuring = measureOptions({ permutations: 19 });

  async function records(source: string, journal?: Journal, enough = Number.POSITIVE_INFINITY) {
    const found = [];
    let last: { resumed?: number; resumedBytes?: number; done: number; bytes: number } | undefined;
    const onProgress = (progress: typeof last) => {
      last = progress;
    };
    for await (const { record } of analyze(source, { engine, permutations: 19, journal, onProgress })) {
      found.push(record);
      if (found.length === enough) break;
    }
    return { found, last };
  }

  it('ended anywhere gives the same reports when it is taken up again', async () => {
    const run = await logs(6);
    const { found: wanted } = await records(run);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 3 }), async (ends) => {
        const where = folder();
        for (const enough of ends) {
          const journal = await Journal.open(where, { version: '1', measuring });
          expect((await records(run, journal, enough)).found).toEqual(wanted.slice(0, enough));
          await journal.close();
        }
        const journal = await Journal.open(where, { version: '1', measuring });
        expect(journal.resumed).toBeGreaterThanOrEqual(Math.max(0, ...ends));
        const { found, last } = await records(run, journal);
        expect(found).toEqual(wanted);
        expect(last).toMatchObject({
          done: 6,
          resumed: journal.resumed,
          resumedBytes: (last?.bytes as number) * (journal.resumed / 6),
        });
        await journal.close();
      }),
      { numRuns: 15 },
    );
  });

  it('does not read again what was measured, but what has changed since', async () => {
    const run = await logs(3);
    const where = folder();
    const first = await Journal.open(where, { version: '1', measuring });
    const { found: wanted } = await records(run, first);
    await first.close();
    // Behind the back: size, time and header as they were. Whoever reads it fails.
    const [hidden, seen] = ['1.safetensors', '3.safetensors'].map((name) => join(run, name)) as [string, string];
    const bytes = readFileSync(hidden);
    bytes.fill(0xff, bytes.length - 300);
    writeFileSync(hidden, bytes);
    settle(hidden);
    await putStep(seen, smallStep(3, 0.9));
    const journal = await Journal.open(where, { version: '1', measuring });
    const { found, last } = await records(run, journal);
    expect(found.slice(0, 2)).toEqual(wanted.slice(0, 2));
    expect(found[2]).not.toEqual(wanted[2]);
    expect(last?.resumed).toBe(2);
    await journal.close();
    await expect(records(run)).rejects.toBeInstanceOf(FileError);
  });

  it('ends when the journal cannot be written, however failures are taken', async () => {
    const run = await logs(4);
    const journal = await Journal.open(folder(), { version: '1', measuring });
    const failing = Object.assign(Object.create(journal), {
      has: () => false,
      find: async () => undefined,
      keep: async () => {
        throw new FileError({ path: 'journal' }, 'cannot write here');
      },
    }) as Journal;
    const failures: FileError[] = [];
    const reading = async () => {
      const reports = analyze(run, { engine, ...measuring, journal: failing, onFailure: (f) => failures.push(f) });
      for await (const _ of reports);
    };
    await expect(reading()).rejects.toThrow('cannot write here');
    expect(failures).toEqual([]);
    await journal.close();
  });

  it('takes no other content than the one that was listed', async () => {
    const run = await logs(12);
    const failures: FileError[] = [];
    const found: number[] = [];
    const onFailure = (failure: FileError) => failures.push(failure);
    for await (const { step } of analyze(run, { engine, permutations: 0, onFailure })) {
      found.push(step);
      if (step === 1) await putStep(join(run, '12.safetensors'), smallStep(12, 0.1));
    }
    expect(found).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect(failures.map(({ message }) => message)).toEqual([
      expect.stringMatching(/12\.safetensors: the file was replaced or changed after it was listed/),
    ]);
  });
});

describe('collapsar analyze --out', () => {
  async function logs(steps: number): Promise<string> {
    const run = join(folder(), 'run');
    for (let step = 1; step <= steps; step++) await putStep(join(run, `${step}.safetensors`), smallStep(step));
    return run;
  }

  async function interrupted(args: readonly string[], after: number): Promise<string> {
    const ending = new AbortController();
    let written = 0;
    const out = keeping({ onWrite: () => ++written === after && ending.abort(new Interrupted('SIGINT')) });
    const { status, err } = await collapsar(args, { out, signal: ending.signal });
    expect(status).toBe(130);
    return err;
  }

  const contents = (where: string) =>
    Object.fromEntries(readdirSync(where).map((name) => [name, readFileSync(join(where, name), 'latin1')]));

  it('interrupted and run again gives the very bytes, says that it continues, and clears up', async () => {
    const run = await logs(12);
    const command = (out: string) => ['analyze', run, '--out', out, '--jsonl', '--permutations', '19'];
    const wanted = join(folder(), 'wanted');
    const whole = await collapsar(command(wanted));
    const out = join(folder(), 'out');
    await interrupted(command(out), 4);
    expect(readdirSync(out)).toEqual([JOURNAL]);
    const again = await collapsar(command(out));
    expect(again.status).toBe(0);
    expect(again.err).toMatch(
      /^continuing in .*: [0-9]+ steps that an earlier analysis measured need not be read again/,
    );
    expect(again.out).toBe(whole.out);
    expect(contents(out)).toEqual(contents(wanted));
  });

  it.each([
    [['--seed', '3'], /had other options: seed 0: all are measured anew/],
    [['--no-resume'], /^$/],
    [['--seed', '3', '--quiet'], /^$/],
  ])('starts anew with %j', async (flags, said) => {
    const run = await logs(12);
    const out = join(folder(), 'out');
    await interrupted(['analyze', run, '--out', out, '--jsonl', '--permutations', '19'], 4);
    const { status, err } = await collapsar(['analyze', run, '--out', out, '--permutations', '19', ...flags]);
    expect(status).toBe(0);
    expect(err).toMatch(said);
  });

  it('continues with other metrics, threads or memory', async () => {
    const run = await logs(12);
    const out = join(folder(), 'out');
    await interrupted(['analyze', run, '--out', out, '--jsonl', '--permutations', '19'], 4);
    const flags = ['--metrics', 'mi_estimate', '--threads', '1', '--max-memory', '200MB'];
    const { err } = await collapsar(['analyze', run, '--out', out, '--permutations', '19', ...flags]);
    expect(err).toContain('continuing in');
  });

  it('with --keep-journal measures later only what is new', async () => {
    const run = await logs(3);
    const out = join(folder(), 'out');
    const command = ['analyze', run, '--out', out, '--permutations', '19', '--keep-journal'];
    expect(await collapsar(command)).toMatchObject({ status: 0, err: '' });
    const size = statSync(join(out, JOURNAL)).size;
    await putStep(join(run, '4.safetensors'), smallStep(4));
    expect((await collapsar(command)).err).toContain(': 3 steps that an earlier analysis measured');
    expect(statSync(join(out, JOURNAL)).size).toBeLessThan(1.5 * size);
    expect(JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8')).steps).toBe(4);
  });

  it('refuses a directory that another process writes to, and touches nothing', async () => {
    const run = await logs(2);
    const out = join(folder(), 'out');
    const other = await ResultDirectory.open(out);
    const { status, out: printed, err } = await collapsar(['analyze', run, '--out', out]);
    expect({ status, printed }).toEqual({ status: 1, printed: '' });
    expect(err).toContain('is writing its results here: wait for it to end, or name another directory');
    await other.discard();
    expect(readdirSync(out)).toEqual([]);
    expect((await collapsar(['analyze', run, '--out', out])).status).toBe(0);
  });

  it('takes away what a killed process had not finished', async () => {
    const run = await logs(2);
    const out = join(folder(), 'out');
    mkdirSync(out);
    const parts = ['matrices.parquet.run', 'texts.parquet', 'texts.parquet.run'];
    for (const name of ['metrics.jsonl', 'prompts.parquet', 'matrices.parquet', ...parts]) {
      writeFileSync(join(out, `.${name}.4242.tmp`), 'half');
    }
    writeFileSync(join(out, '.notes.tmp'), 'not ours');
    await collapsar(['analyze', run, '--out', out]);
    expect(readdirSync(out).sort()).toEqual([
      '.notes.tmp',
      'matrices.parquet',
      'metrics.jsonl',
      'metrics.parquet',
      'prompts.parquet',
      'summary.json',
      'texts.parquet',
    ]);
  });

  it('that cannot put its results into place leaves those of before, and continues later', async () => {
    const run = await logs(4);
    const out = join(folder(), 'out');
    const command = ['analyze', run, '--out', out, '--permutations', '19'];
    await collapsar(command);
    const before = contents(out);
    await putStep(join(run, '5.safetensors'), smallStep(5));
    // Meanwhile its name under way is taken.
    const blocked = join(out, `.summary.json.${process.pid}.tmp`);
    const printed = keeping({ onWrite: () => mkdirSync(blocked, { recursive: true }) });
    const failed = await collapsar([...command, '--jsonl'], { out: printed });
    rmdirSync(blocked);
    expect(failed.status).toBe(1);
    expect(failed.err).toContain('cannot write here');
    const left = contents(out);
    expect(left).toMatchObject(before);
    const again = await collapsar(command);
    expect(again.err).toContain(': 5 steps that an earlier analysis measured');
    expect(readdirSync(out).sort()).toEqual(Object.keys(before).sort());
    expect(JSON.parse(readFileSync(join(out, 'summary.json'), 'utf8')).steps).toBe(5);
  });

  it.each([
    'metrics.jsonl',
    'prompts.parquet',
    'matrices.parquet',
    'texts.parquet',
    'metrics.parquet',
    'failures.jsonl',
    'summary.json',
  ])('with a directory in the place of %s measures nothing, and leaves the others', async (name) => {
    const run = await logs(3);
    const out = join(folder(), 'out');
    mkdirSync(join(out, name), { recursive: true });
    const { status, err, out: printed } = await collapsar(['analyze', run, '--out', out, '--jsonl']);
    expect(status).toBe(1);
    expect(err).toContain(`${join(out, name)}: cannot write here: this is a directory: name a file`);
    expect(printed).toBe('');
    expect(readdirSync(out)).toEqual([name]);
  });

  it('where files failed keeps what was measured, until they are repaired', async () => {
    const run = await logs(13);
    truncateSync(join(run, '5.safetensors'), 900);
    const [out, wanted] = [join(folder(), 'out'), join(folder(), 'wanted')];
    const command = ['analyze', run, '--permutations', '19', '--out', out];
    const failed = await collapsar(command);
    expect(failed.status).toBe(1);
    expect(failed.err).toContain(
      `${out} keeps what was measured. When these files are repaired, the same command measures only them.`,
    );
    expect((await collapsar([...command, '--quiet'])).err).not.toContain('keeps');
    await putStep(join(run, '5.safetensors'), smallStep(5));
    const repaired = await collapsar(command);
    expect(repaired).toMatchObject({ status: 0, err: expect.stringContaining(': 12 steps that an earlier analysis') });
    await collapsar(['analyze', run, '--permutations', '19', '--out', wanted]);
    expect(contents(out)).toEqual(contents(wanted));
  });

  it('names each file that cannot be used and gives the rest, again and again', async () => {
    const run = await logs(40);
    const bad = smallStep(17);
    bad.logprobs.data[elementOf(1, 1, 1)] = Number.NaN;
    await putStep(join(run, '17.safetensors'), bad);
    truncateSync(join(run, '23.safetensors'), 900);
    appendFileSync(join(run, '24.safetensors'), 'x');
    const out = join(folder(), 'out');
    const command = ['analyze', run, '--out', out, '--jsonl', '--permutations', '0'];
    await interrupted(command, 20);
    const { status, err } = await collapsar(command);
    expect(status).toBe(1);
    expect(err).toContain('3 files or paths could not be used; 37 steps were reported.');
    for (const name of [17, 23, 24]) expect(err).toContain(join(run, `${name}.safetensors`));
    expect(readFileSync(join(out, 'failures.jsonl'), 'utf8').trimEnd().split('\n')).toHaveLength(3);
  });
});
