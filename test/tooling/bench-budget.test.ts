// What keeps a benchmark run within its minutes and its memory: on made-up clocks, memories and peers, and one real
// run.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildIfStale } from '../support/built-command.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

// Plain JavaScript, without declarations; a variable keeps the compiler from looking for them.
const load = (name: string) => import(new URL(`../../bench/${name}.mjs`, import.meta.url).href);
const [mebibyte, gibibyte] = [2 ** 20, 2 ** 30];
const folder = temporaryDirectory();

describe('time', () => {
  /** A budget on a clock that only `wait` moves. */
  async function fakeTime(seconds: number) {
    const { TimeBudget } = await load('suite/budget');
    let now = 1000;
    const time = new TimeBudget(seconds, () => now);
    const wait = (more: number) => {
      now += more;
    };
    return { time, wait };
  }

  it('is shared out among what is left: later parts have what earlier ones leave, and bear what they overdraw', async () => {
    const { time, wait } = await fakeTime(100);
    expect(time.share(10).left()).toBe(10);
    wait(1);
    expect(time.share(9).left()).toBe(11);
    expect(time.share(9, 3).left()).toBe(33);
    expect(time.share(2, 5).left()).toBe(99); // no more than there is
    wait(90);
    expect(time.share(3).left()).toBe(3);
    wait(20);
    expect(time.left()).toBe(-11);
    expect(time.share(2).left()).toBe(0);
  });

  it('lets a round begin only if it will do for it, after the least number', async () => {
    const { interleave } = await load('suite/interleave');
    const effort = { rounds: 7, leastRounds: 2, slice: 0, slowSeconds: 100, slowRounds: 7 };
    /** How many rounds of two calls of three seconds each fit. */
    const rounds = async (seconds: number) => {
      const { time, wait } = await fakeTime(seconds);
      const task = (name: string) => ({
        name,
        warm: true,
        run: async () => {
          wait(3);
          return 3;
        },
      });
      const times: Map<string, number[][]> = await interleave([task('a'), task('b')], effort, time);
      expect(times.get('a')).toEqual(times.get('b'));
      return times.get('a')?.length;
    };
    expect(await rounds(1000)).toBe(7);
    expect(await rounds(24)).toBe(4);
    expect(await rounds(23.9)).toBe(3);
    expect(await rounds(0)).toBe(2);
  });

  it('stops a peer that does not answer', async () => {
    const { PeerProcess } = await load('peers/process');
    const { TimeBudget } = await load('suite/budget');
    const { MemoryWatch } = await load('suite/footprint');
    const watch = new MemoryWatch(gibibyte * 1024);
    const peers = new PeerProcess(nodeProgram('setInterval(() => {}, 1000)'), new TimeBudget(0), watch);
    await expect(peers.versions()).rejects.toThrow('stopped: no answer in 1 s');
    await peers.close();
    watch.close();
  });
});

/** A program that a library could be: a line of JavaScript. */
const nodeProgram = (source: string) => ({
  name: 'made up',
  weight: 1,
  program: process.execPath,
  args: ['-e', source],
});

describe('memory', () => {
  it('is a quarter of the machine, or of the cgroup that has less', async () => {
    const { memoryBudget } = await load('suite/budget');
    expect(memoryBudget(24 * gibibyte, 0)).toBe(6 * gibibyte);
    expect(memoryBudget(24 * gibibyte, 2 ** 64)).toBe(6 * gibibyte); // no limit, as some systems say it
    expect(memoryBudget(24 * gibibyte, 8 * gibibyte)).toBe(2 * gibibyte);
  });

  it('and time bound the inputs, however large the cache', async () => {
    const { inputBudget } = await load('suite/budget');
    const usual = { peers: true, minutes: 10, memory: 6 * gibibyte, cache: 32 * mebibyte };
    expect(inputBudget(usual)).toBe(256 * mebibyte);
    expect(inputBudget({ ...usual, peers: false })).toBe(512 * mebibyte);
    expect(inputBudget({ ...usual, cache: 480 * mebibyte })).toBe(320 * mebibyte);
    expect(inputBudget({ ...usual, minutes: 1 })).toBe(32 * mebibyte);
    expect(inputBudget({ ...usual, memory: gibibyte })).toBe(64 * mebibyte);
    expect(inputBudget({ ...usual, cache: 480 * mebibyte, memory: gibibyte })).toBe(64 * mebibyte);
    expect(inputBudget({ ...usual, minutes: 0.01 })).toBe(8 * mebibyte);
  });

  it('of all processes together is watched; over the limit those that were started are stopped, with the reason', async () => {
    const { MemoryWatch } = await load('suite/footprint');
    const held = new Map([
      [1, { now: 1 * gibibyte, peak: 2 * gibibyte }],
      [2, { now: 1 * gibibyte, peak: 1 * gibibyte }],
    ]);
    const watch = new MemoryWatch(6 * gibibyte, { own: () => gibibyte, of: (pid: number) => held.get(pid) });
    const stopped: string[] = [];
    for (const pid of [1, 2, 3]) watch.add(pid, (why: string) => stopped.push(why)); // 3 has ended
    watch.sample();
    expect(watch.free()).toBe(3 * gibibyte);
    expect([watch.peakBytes, stopped]).toEqual([4 * gibibyte, []]);
    held.set(2, { now: gibibyte, peak: 3.5 * gibibyte });
    watch.remove(3);
    expect(stopped[0]).toBe('stopped: all processes held 6.50 GiB, the budget is 6.00 GiB');
    held.set(2, { now: gibibyte, peak: gibibyte });
    watch.close();
    expect(watch.peakBytes).toBe(6.5 * gibibyte);
  });

  it.runIf(existsSync('/proc/self/clear_refs'))('of a process that takes too much comes back', async () => {
    const { PeerProcess } = await load('peers/process');
    const { TimeBudget } = await load('suite/budget');
    const { MemoryWatch } = await load('suite/footprint');
    const watch = new MemoryWatch(process.memoryUsage.rss() + 512 * mebibyte);
    const source = 'const held = []; setInterval(() => held.push(Buffer.alloc(64 * 2 ** 20, 1)), 20)';
    const peers = new PeerProcess(nodeProgram(source), new TimeBudget(60), watch);
    await expect(peers.versions()).rejects.toThrow(/^stopped: all processes held .* GiB, the budget is/);
    await peers.close();
    expect(peers.memory()).toBeUndefined();
    watch.close();
  });

  it.runIf(existsSync('/proc/self/clear_refs'))('of a call is told apart: what stays, and what passes', async () => {
    const { PeerProcess } = await load('peers/process');
    const { TimeBudget } = await load('suite/budget');
    const { MemoryWatch } = await load('suite/footprint');
    const watch = new MemoryWatch(gibibyte * 1024);
    const source = `
      const held = [];
      const answer = (line) => {
        const { do: what } = JSON.parse(line);
        if (what === 'check') {
          held.push(Buffer.alloc(96 * 2 ** 20, 1));
          for (let pass = 0; pass < 3; pass++) { Buffer.alloc(160 * 2 ** 20, 1); gc(); }
        }
        console.log(JSON.stringify({ versions: {}, errors: {}, problem: null }));
      };
      require('node:readline').createInterface({ input: process.stdin }).on('line', answer);`;
    const program = nodeProgram(source);
    const peers = new PeerProcess({ ...program, args: ['--expose-gc', ...program.args] }, new TimeBudget(60), watch);
    await peers.versions();
    const { kept, passing } = await peers.measureMemory(() => peers.check({ name: 'a', threads: 1 }));
    expect(kept / mebibyte).toBeGreaterThan(90);
    expect((kept + passing) / mebibyte).toBeGreaterThan(250);
    await peers.close();
    watch.close();
  });
});

describe('the size that a peer is measured with', () => {
  const bytes = [256, 64, 16, 4].map((size) => size * mebibyte);
  const room = { callSeconds: 2, bytes, free: () => 4 * gibibyte };
  // What the probe, a sixteenth, has shown.
  const peer = (name: string, more: object) => ({ name, threads: 1, seconds: 0.01, kept: 0, passing: 0, ...more });
  const sizesOf = async (probed: object[], given: object = {}): Promise<(number | undefined)[]> => {
    const { chooseSizes } = await load('peers/sizes');
    return chooseSizes(probed, { ...room, ...given }).map(({ size }: { size: number | undefined }) => size);
  };

  it('is the whole where a call takes two seconds at most; else a quarter, a sixteenth, or less', async () => {
    const times = [0.125, 0.13, 0.51, 2.01, 100];
    expect(await sizesOf(times.map((seconds) => peer(`${seconds}`, { seconds })))).toEqual([0, 1, 2, 3, 3]);
    expect(await sizesOf([peer('a', { seconds: 0.125 })], { callSeconds: 0.5 })).toEqual([1]);
  });

  it('leaves room for temporaries: what calls keep adds up, what passes counts once', async () => {
    const passing = 150 * mebibyte; // × 16 × 1.25: 2.9 GiB at the whole size
    expect(await sizesOf([peer('a', { passing }), peer('b', { passing })])).toEqual([0, 0]);
    expect(await sizesOf([peer('a', { kept: passing }), peer('b', { kept: passing })])).toEqual([0, 1]);
    expect(await sizesOf([peer('a', { passing: 2 * passing })])).toEqual([1]);
    expect(await sizesOf([peer('a', { passing })], { free: (size: number) => (size < 2 ? 0 : gibibyte) })).toEqual([2]);
    expect(await sizesOf([peer('a', { passing })], { free: () => 0 })).toEqual([undefined]);
  });

  it('assumes temporaries of eight times the input where the system does not tell', async () => {
    const unknown = peer('a', { kept: undefined, passing: undefined });
    expect(await sizesOf([unknown])).toEqual([0]); // 2.5 GiB
    expect(await sizesOf([unknown], { free: () => 2 * gibibyte })).toEqual([1]);
  });

  it('is explained', async () => {
    const { chooseSizes } = await load('peers/sizes');
    const probed = [peer('slow', { seconds: 1 }), peer('large', { passing: gibibyte }), peer('fine', {})];
    expect(chooseSizes(probed, room).map(({ why }: { why: string }) => why)).toEqual([
      'about 16.0 s a call, and 2.00 s are allowed',
      'about 20.00 GiB of temporaries, and 4.00 GiB are left',
      '',
    ]);
  });
});

describe('a library', () => {
  const server = (more: string) => `
    const answer = (line) => {
      const { do: what } = JSON.parse(line);
      ${more}
      console.log(JSON.stringify({ versions: { pid: String(process.pid) } }));
    };
    require('node:readline').createInterface({ input: process.stdin }).on('line', answer);`;
  const found = async (source: string) => {
    const { Library } = await load('peers/libraries');
    const { TimeBudget } = await load('suite/budget');
    const { MemoryWatch } = await load('suite/footprint');
    return new Library(nodeProgram(source), new TimeBudget(60), new MemoryWatch(gibibyte * 1024));
  };

  it.runIf(existsSync('/proc/self/clear_refs'))(
    'keeps its process while that gives memory back, and has a new one after that broke or held on to memory',
    async () => {
      const modest = await found(server(''));
      const first = await modest.versions();
      await modest.rest();
      expect(await modest.versions()).toEqual(first);
      await modest.close();
      for (const fault of [
        'if (what === "unload") process.exit(3);',
        'if (what === "unload") globalThis.held = Buffer.alloc(128 * 2 ** 20, 1);',
      ]) {
        const library = await found(server(fault));
        const { pid } = await library.versions();
        await library.rest();
        expect((await library.versions()).pid).not.toBe(pid);
        await library.close();
      }
    },
  );

  it('that is not there, or ends, is named with the reason', async () => {
    const { findLibraries } = await load('peers/libraries');
    const { TimeBudget } = await load('suite/budget');
    const { MemoryWatch } = await load('suite/footprint');
    const programs = [
      { name: 'absent', weight: 1, program: join(folder, 'absent'), args: [] },
      { ...nodeProgram('process.exit(3)'), name: 'ending' },
      { ...nodeProgram('process.kill(process.pid, "SIGKILL")'), name: 'killed' },
      { ...nodeProgram(server('')), name: 'there' },
    ];
    const { libraries, absent } = await findLibraries(new TimeBudget(60), new MemoryWatch(2 ** 50), programs);
    expect(libraries.map(({ name }: { name: string }) => name)).toEqual(['there']);
    expect(absent).toEqual([
      `absent: ${join(folder, 'absent')}: not found`,
      'ending: it ended without an answer (status 3)',
      'killed: it ended without an answer (SIGKILL)',
    ]);
    for (const library of libraries) await library.close();
  });
});

describe('bench/run.mjs', () => {
  beforeAll(buildIfStale);

  const start = (out: string, minutes: string) =>
    spawn(
      process.execPath,
      [fileURLToPath(new URL('../../bench/run.mjs', import.meta.url)), '--peers', '--minutes', minutes, '--out', out],
      {
        env: { ...process.env, COLLAPSAR_PYTHON: join(folder, 'no-python'), TMPDIR: folder },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
  const resultIn = (out: string) => {
    const name = existsSync(out) ? readdirSync(out).find((one) => one.endsWith('.json')) : undefined;
    const text = name === undefined ? '' : readFileSync(join(out, name), 'utf8');
    return text === '' ? undefined : JSON.parse(text);
  };

  it('ends in its time, and says which cases it had none for and which peers were not there', async () => {
    const out = join(folder, 'whole');
    const child = start(out, '0.5');
    let [table, progress] = ['', ''];
    child.stdout.on('data', (text) => {
      table += text;
    });
    child.stderr.on('data', (text) => {
      progress += text;
    });
    expect(await once(child, 'close')).toEqual([0, null]);
    const { cases, measures, budget, skipped } = resultIn(out);
    expect(cases.of).toBe(13);
    expect(budget.usedSeconds).toBeLessThan(45); // half a minute, and on a busy machine a last call or two
    const leftOut = skipped.filter((what: string) => /\]( only \w+)?: the 0\.5 minutes were over$/.test(what));
    expect(cases.done + leftOut.length).toBe(13);
    expect(new Set(measures.map((one: { case: string }) => one.case)).size).toBeGreaterThanOrEqual(cases.done);
    expect(budget.peakMemoryBytes).toBeLessThanOrEqual(budget.memoryBytes);
    expect(skipped.filter((what: string) => what.includes('no-python: not found'))).toHaveLength(3);
    expect(table).toContain('of 0.5 minutes, at most');
    expect(progress).toMatch(/at most 0:\d\d left {2}1\/13: logitStats float32 .*; next: logitStats float32/);
  }, 120_000);

  it('leaves what it had when it is killed', async () => {
    const out = join(folder, 'killed');
    mkdirSync(out);
    const child = start(out, '1');
    while (child.exitCode === null && !(resultIn(out)?.cases.done >= 1)) await sleep(20);
    child.kill('SIGKILL');
    await once(child, 'close');
    const { cases, measures } = resultIn(out);
    expect(cases.done).toBeGreaterThanOrEqual(1);
    expect(cases.done).toBeLessThan(13);
    expect(measures.filter(({ runner }: { runner: string }) => runner === 'peer')).not.toEqual([]);
    const { doubts } = await load('suite/report');
    expect(doubts(resultIn(out))[0]).toBe(`it ended after ${cases.done} of 13 cases`);
  }, 120_000);

  it('replaces a result as a whole, under the name that it claimed', async () => {
    const { claimResult } = await load('stored');
    const place = pathToFileURL(join(folder, 'claimed/'));
    const one = await claimResult('run', place);
    const two = await claimResult('run', place);
    await one.write({ part: 1 });
    await two.write({ other: 1 });
    await one.write({ part: 2 });
    expect([one.name, two.name, ...readdirSync(place).sort()]).toEqual([
      'run.json',
      'run-2.json',
      'run-2.json',
      'run.json',
    ]);
    expect(JSON.parse(readFileSync(new URL('run.json', place), 'utf8'))).toEqual({ part: 2 });
  });
});
