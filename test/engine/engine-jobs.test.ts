// How jobs run beside the event loop: abort, progress, order, dispose, workers that die, and what remains of them.
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DisposedError } from '../../src/checks/errors.js';
import { addonPath, loadAddon } from '../../src/engine/addon.js';
import type { Engine } from '../../src/engine/engine.js';
import { openEngine } from '../../src/engine/open-engine.js';
import type { Tensor } from '../../src/engine/tensor/tensor.js';
import { collected } from './engine-leaks.js';

// Sanitizers make everything some ten times slower.
const sanitized = process.env.COLLAPSAR_SANITIZED === '1';

let engine: Engine;
// Untouched zeros: work that takes no memory. They come from the cache at up to 100 GB/s, so they are read several
// times.
let long: Tensor;
let lengths: BigInt64Array;
beforeAll(async () => {
  engine = await openEngine({ device: 'cpu', threads: 2 });
  const rows = sanitized ? 2 ** 8 : 2 ** 12;
  const zeros = engine.alloc('float32', [rows, 4096]).data;
  const prompts = sanitized ? 63 : 63 * 6;
  long = { data: zeros, dtype: 'float32', shape: [prompts, rows, 4096], strides: [0, 4096, 1] };
  lengths = new BigInt64Array(rows).fill(4096n);
});
afterAll(() => engine.dispose());

const small: Tensor = { data: new Float64Array([-1, -2, -3, -4]), dtype: 'float64', shape: [2, 2] };

describe('abort', () => {
  it('rejects with the reason before the call', async () => {
    const reason = { why: 'test' };
    await expect(engine.gatherScores(small, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });

  it('stops a running job at once, and the next job gets its threads', async () => {
    const controller = new AbortController();
    const running = engine.sumTokens(long, lengths, { signal: controller.signal });
    const settled = running.then(
      () => 'done',
      (error) => error,
    );
    await sleep(30);
    const start = performance.now();
    controller.abort();
    expect(await settled).toBe(controller.signal.reason);
    await engine.gatherScores(small);
    // About a millisecond alone; other processes want the cores, too.
    expect(performance.now() - start).toBeLessThan(sanitized ? 1000 : 100);
  });

  it('takes a waiting job out of the queue without waiting for the running one', async () => {
    const first = new AbortController();
    const second = new AbortController();
    const ends: string[] = [];
    const running = engine.sumTokens(long, lengths, { signal: first.signal }).catch(() => ends.push('running'));
    const waiting = engine.gatherScores(small, { signal: second.signal }).catch(() => ends.push('waiting'));
    second.abort();
    await waiting;
    first.abort();
    await running;
    expect(ends).toEqual(['waiting', 'running']);
  });

  it('has no effect once a job has ended', async () => {
    const controller = new AbortController();
    const gathered = await engine.gatherScores(small, { signal: controller.signal });
    controller.abort();
    expect(gathered.data[0]).toBe(-1);
  });

  it('leaves nothing of 1,000 aborted jobs', async () => {
    const before = await collected();
    const controllers = Array.from({ length: 1000 }, () => new AbortController());
    const jobs = controllers.map(({ signal }) => engine.sumTokens(long, lengths, { signal }));
    const settled = Promise.allSettled(jobs);
    for (const [i, controller] of controllers.entries()) {
      controller.abort();
      if (i % 50 === 0) await sleep(1); // lets a few of them start
    }
    // One that has its turn while the test sleeps may end by itself.
    expect((await settled).filter(({ status }) => status === 'rejected').length).toBeGreaterThan(900);
    const after = await collected();
    expect(after.jobs).toBe(0);
    expect(after.blocks).toBeLessThanOrEqual(before.blocks);
    expect(after.bytes).toBeLessThanOrEqual(before.bytes);
  });
});

describe('progress', () => {
  it('rises to 1', async () => {
    const seen: number[] = [];
    await engine.sumTokens(long, lengths, { onProgress: (fraction) => seen.push(fraction) });
    expect(seen.at(-1)).toBe(1);
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    expect(seen.every((fraction) => fraction >= 0 && fraction <= 1)).toBe(true);
    if (!sanitized) expect(seen.length).toBeGreaterThan(1);
  });

  it('is 0 while the job waits for its turn', async () => {
    const before = engine.sumTokens(long, lengths);
    const seen: number[] = [];
    const one: Tensor = { data: new Float32Array([-1]), dtype: 'float32', shape: [1, 1, 1] };
    await engine.sumTokens(one, [1], { onProgress: (fraction) => seen.push(fraction) });
    await before;
    expect(seen.at(-1)).toBe(1);
    // The clock may strike once more between the job's end and the promise's: 1 can be said twice.
    const unfinished = seen.filter((fraction) => fraction < 1);
    expect(unfinished).toEqual(unfinished.map(() => 0));
    if (!sanitized) expect(unfinished.length).toBeGreaterThan(0);
  });

  it('cancels the job if its callback throws', async () => {
    const failure = new Error('from the callback');
    const onProgress = () => {
      throw failure;
    };
    await expect(engine.sumTokens(long, lengths, { onProgress })).rejects.toBe(failure);
  });
});

describe('many jobs', () => {
  it('run in the order of their calls, each with its own answer', async () => {
    const order: number[] = [];
    const jobs = Array.from({ length: 200 }, async (_, i) => {
      const data = new Float64Array(i + 1).fill(-1);
      const { sums } = await engine.sumTokens({ data, dtype: 'float64', shape: [1, i + 1] }, [i + 1]);
      order.push(i);
      expect(sums.data[0]).toBe(-(i + 1));
    });
    await Promise.all(jobs);
    expect(order).toEqual([...order].sort((a, b) => a - b));
  });

  it('run on several engines at once', async () => {
    const engines = await Promise.all([1, 2, 3].map((threads) => openEngine({ threads })));
    const data = new Float32Array(2 ** 19).fill(-1);
    const all = await Promise.all(
      engines.flatMap((each) =>
        Array.from({ length: 10 }, () =>
          each.sumTokens({ data, dtype: 'float32', shape: [1, data.length] }, [data.length]),
        ),
      ),
    );
    expect(all.every(({ sums }) => sums.data[0] === -data.length)).toBe(true);
    await Promise.all(engines.map((each) => each.dispose()));
  });
});

describe('dispose', () => {
  it('rejects what runs and waits with a DisposedError, and ends the threads', async () => {
    const own = await openEngine({ threads: 2 });
    const dispatchers = loadAddon().live().dispatchers;
    const jobs = [own.sumTokens(long, lengths), own.gatherScores(small)];
    const settled = Promise.allSettled(jobs);
    await sleep(10);
    await Promise.all([own.dispose(), own.dispose()]);
    for (const result of await settled) expect((result as PromiseRejectedResult).reason).toBeInstanceOf(DisposedError);
    expect(loadAddon().live().dispatchers).toBe(dispatchers - 1);
  });

  it('makes later calls reject, and leaves results usable', async () => {
    const own = await openEngine({ threads: 1 });
    const gathered = await own.gatherScores(small);
    await own[Symbol.asyncDispose]();
    await expect(own.gatherScores(small)).rejects.toThrow(DisposedError);
    await expect(own.stepMoments({} as never, {} as never)).rejects.toThrow(/stepMoments: the engine was disposed/);
    expect(() => own.alloc('float32', [1])).toThrow(DisposedError);
    expect([...gathered.data]).toEqual([-1, -2, -3, -4]);
  });

  it('is not needed for the threads of an engine that nobody holds any more', async () => {
    const before = (await collected()).dispatchers;
    await (async () => {
      const own = await openEngine({ threads: 2 });
      await own.gatherScores(small);
    })();
    expect(loadAddon().live().dispatchers).toBe(before + 1);
    await collected();
    expect((await collected()).dispatchers).toBe(before);
  });
});

describe('the event loop', () => {
  it('goes on while 256 MB are summed, and so does reading a file', async () => {
    const count = 2 ** 26;
    const data = new Float32Array(new SharedArrayBuffer(count * 4)).fill(-1);
    const folder = await mkdtemp(join(tmpdir(), 'collapsar-'));
    try {
      const file = join(folder, 'file');
      await writeFile(file, 'x'.repeat(1e5));
      const delay = monitorEventLoopDelay({ resolution: 1 });
      delay.enable();
      const running = engine.sumTokens({ data, dtype: 'float32', shape: [1, count] }, [count]);
      const start = performance.now();
      let reads = 0;
      let busy = true;
      const reading = (async () => {
        do {
          expect((await readFile(file)).length).toBe(1e5);
          reads++;
        } while (busy);
      })();
      const { sums } = await running;
      busy = false;
      await reading;
      delay.disable();
      expect(sums.data[0]).toBe(-count);
      expect(reads).toBeGreaterThan(0);
      expect(performance.now() - start).toBeLessThan(60_000);
      // p99 is below 10 ms on a machine of its own.
      expect(delay.percentile(99) / 1e6).toBeLessThan(sanitized ? 1000 : 50);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('ends with the script although an engine is open, and not while a job runs', () => {
    const script = `
      const addon = require(${JSON.stringify(addonPath())});
      const engine = new addon.NativeEngine(2, 2 ** 32);
      const data = new Float32Array(new SharedArrayBuffer(2 ** 24));
      engine.gatherScores(() => console.log('settled'), data, 1, true, 2 ** 22, 1, 1, 1, undefined, undefined);`;
    const { stdout, status } = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8', timeout: 60_000 });
    expect([stdout, status]).toEqual(['settled\n', 0]);
  });

  it.each(['', 'new addon.NativeEngine(2, 2 ** 32);'])('ends with a script that starts no job: %s', (open) => {
    const script = `const addon = require(${JSON.stringify(addonPath())}); ${open}`;
    const { status, stderr } = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8', timeout: 30_000 });
    expect([status, stderr]).toEqual([0, '']);
  });

  it('may be left by process.exit() in the middle of a job', () => {
    const script = `
      const addon = require(${JSON.stringify(addonPath())});
      const engine = new addon.NativeEngine(2, 2 ** 32);
      const data = new Float32Array(addon.alloc(2 ** 31));
      engine.sumTokens(() => {}, data, 1, true, true, 1, 0, 2 ** 29, 2 ** 29, 0, 1, new Float64Array(2 ** 17).fill(4096),
        undefined, undefined, 0, 0, undefined);
      setTimeout(() => process.exit(7), 20);`;
    const { status, stderr } = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8', timeout: 60_000 });
    expect([status, stderr]).toEqual([7, '']);
  });
});

describe('workers', () => {
  // A worker knows no TypeScript, so it calls the addon as engine.ts does. `own` is memory of the worker's, which
  // goes with it; so do results of earlier jobs.
  const script = `
    const { parentPort, workerData } = require('node:worker_threads');
    const addon = require(workerData.addon);
    const engine = new addon.NativeEngine(2, 2 ** 32);
    const count = workerData.count;
    const shared = new Float32Array(workerData.shared);
    const own = new Float32Array(2 ** 19);
    const engineMemory = new Float32Array(addon.alloc(count * 4));
    const sum = (settle, data) => engine.sumTokens(settle, data, 1, true, true, 1, 0, data.length, data.length, 0, 1,
      new Float64Array(data.length / 128).fill(128), undefined, undefined, 0, 0, undefined);
    let settled = 0;
    sum(() => {
      for (let i = 0; i < 3; i++) {
        sum(() => settled++, own);
        sum(() => settled++, shared);
        sum(() => settled++, engineMemory);
      }
      parentPort.postMessage('running');
      if (workerData.finish) {
        const wait = setInterval(() => {
          if (settled === 9) { clearInterval(wait); parentPort.postMessage('finished'); }
        }, 5);
      }
    }, own.subarray(0, 128));`;
  const start = (finish: boolean, count: number) =>
    new Worker(script, {
      eval: true,
      workerData: { addon: addonPath(), finish, count, shared: new SharedArrayBuffer(2 ** 22) },
    });

  it('load the addon beside the main thread and finish their jobs', async () => {
    const messages = await Promise.all(
      Array.from(
        { length: 3 },
        () =>
          new Promise<string[]>((resolve, reject) => {
            const messages: string[] = [];
            start(true, 2 ** 20)
              .on('message', (message) => messages.push(message))
              .on('error', reject)
              .on('exit', () => resolve(messages));
          }),
      ),
    );
    expect(messages).toEqual(Array(3).fill(['running', 'finished']));
  });

  it('die cleanly in the middle of their jobs, 200 of them', async () => {
    const workers = sanitized ? 20 : 200;
    const before = loadAddon().live();
    let next = 0;
    let interrupted = 0; // the others had finished before
    const killer = async () => {
      while (next++ < workers) {
        const worker = start(false, 2 ** 26);
        await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
        if (next % 3 === 0) await sleep(Math.random() * 5);
        if ((await worker.terminate()) === 1) interrupted++;
      }
    };
    await Promise.all([killer(), killer(), killer()]);
    expect(interrupted).toBeGreaterThan(workers / 2);
    const after = loadAddon().live();
    expect([after.jobs, after.dispatchers]).toEqual([before.jobs, before.dispatchers]);
    expect(after.blocks).toBeLessThanOrEqual(before.blocks);
  }, 300_000);
});
