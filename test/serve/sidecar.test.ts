// `collapsar monitor` as a process: the protocol of docs/reference/sidecar.md, and how it ends. It runs what is in
// dist/.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Monitor, openEngine, type StepReport } from '../../src/index.js';
import { encodeHeader } from '../../src/logs/formats/safetensors.js';
import { type SmallStep, smallStep } from '../monitor/monitor-run.js';
import { buildIfStale, builtCommand } from '../support/built-command.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { type Json, type Sidecar, startSidecar } from './sidecar-client.js';

const directory = temporaryDirectory();
const open: Sidecar[] = [];

beforeAll(buildIfStale);
afterEach(() => {
  for (const { child } of open.splice(0)) child.kill('SIGKILL');
});

function started(...args: string[]): Sidecar {
  const sidecar = startSidecar(args);
  open.push(sidecar);
  return sidecar;
}

const plain = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_, v) => (ArrayBuffer.isView(v) ? Array.from(v as never) : v)));

function labelsOf({ labels }: SmallStep): Json {
  return plain(labels) as Json;
}

function outcomesOf({ outcomes }: SmallStep): Json {
  return plain(outcomes) as Json;
}

/** [R][P] sums of a step, as float64. */
async function sumsOf({ logprobs, labels }: SmallStep): Promise<number[][]> {
  const engine = await openEngine({ device: 'cpu', threads: 1 });
  const { sums } = await engine.sumTokens(logprobs, labels.lengths);
  await engine.dispose();
  const [rows, prompts] = sums.shape as [number, number];
  return Array.from({ length: rows }, (_, row) =>
    Array.from(sums.data.slice(row * prompts, (row + 1) * prompts) as Float64Array),
  );
}

/** One step over the wire; the answer to finish. */
async function wholeStep(sidecar: Sidecar, step: number, small: SmallStep): Promise<Json> {
  const opened = await sidecar.ask('step', { step, ...labelsOf(small) });
  if (opened.due === true)
    expect(await sidecar.ask('score', { sums: await sumsOf(small) })).not.toHaveProperty('error');
  return sidecar.ask('finish', { outcomes: outcomesOf(small) });
}

/** What a client is told is of the library's report, and nothing else: `parts` besides what every answer has. */
function expectTold(told: unknown, report: StepReport, parts: readonly string[]): void {
  const always = ['absent', 'certainty', 'due', 'lossScale', 'metrics', 'notes', 'step', 'stops'];
  expect(Object.keys(told as object).sort()).toEqual([...always, ...parts].sort());
  expect(plain(report)).toMatchObject(told as object);
}

describe('the protocol', () => {
  it('gives the report of the library, to the bit', async () => {
    const sidecar = started();
    const options = { everySteps: 2, filter: { strategy: 'top_p', value: 0.9 } } as const;
    expect(await sidecar.ask('open', { protocol: 1, options })).toMatchObject({ protocol: 1, lastStep: null });
    await using monitor = new Monitor({ ...options, threads: 1 });
    for (let n = 1; n <= 4; n++) {
      const small = smallStep(n);
      const step = monitor.step(n, small.labels);
      if (step.due) await step.scoreAll({ logprobs: small.logprobs });
      const report = await step.finish(small.outcomes);
      const answer = await wholeStep(sidecar, n, small);
      expectTold(answer.report, report, ['filter', 'judgement', ...(step.due ? ['stepMetrics'] : [])]);
    }
    expect((await sidecar.ask('save')).state).toEqual(monitor.save());
  });

  it('tells the buckets of rewards before the step is finished with their gradients', async () => {
    const sidecar = started();
    await sidecar.ask('open', { options: { judge: false, buckets: { count: 2 } } });
    await using monitor = new Monitor({ judge: false, buckets: { count: 2 }, threads: 1 });
    const groups = [0, 0, 1, 1, 2, 2];
    const rewards = [0, 0, 0, 1, 0, 2];
    await sidecar.ask('step', { step: 2, groups, due: false });
    const step = monitor.step(2, { groups, due: false });
    const { buckets } = await sidecar.ask('buckets', { outcomes: { rewards } });
    expect(buckets).toEqual(plain(step.buckets({ rewards })));
    const gradientNorms = { bucket_1: { task: 1, kl: 2 } };
    const { report } = await sidecar.ask('finish', { outcomes: { rewards, gradientNorms } });
    expectTold(report, await step.finish({ rewards, gradientNorms }), ['buckets', 'gradients']);
  });

  it('means by a request that names no step the one opened last of those that are open', async () => {
    const sidecar = started();
    await sidecar.ask('open', { options: { judge: false } });
    const groups = [0, 0, 1, 1];
    for (const step of [1, 2, 3]) await sidecar.ask('step', { step, groups, due: false });
    const outcomes = { rewards: [0, 1, 0, 1] };
    const stepOf = async (fields: Json = {}) =>
      ((await sidecar.ask('finish', { outcomes, ...fields })).report as Json | undefined)?.step;
    expect(await stepOf()).toBe(3);
    for (const step of [4, 5, 6]) await sidecar.ask('step', { step, groups, due: false });
    expect(await stepOf({ step: 4 })).toBe(4);
    expect(await stepOf()).toBe(6);
    // Steps that are finished out of turn are refused: it is the open one that is meant.
    const { error } = await sidecar.ask('finish', { outcomes });
    expect(error).toMatchObject({ message: expect.stringMatching(/step 5/) });
  });

  it('takes the scores of one prompt, of some rows, and from a file', async () => {
    const sidecar = started();
    await sidecar.ask('open', { options: { judge: false } });
    const small = smallStep(7);
    const sums = await sumsOf(small);
    const whole = await wholeStep(sidecar, 1, small);
    const [P, R, T] = small.logprobs.shape;

    await sidecar.ask('step', { step: 2, due: true, ...labelsOf(small) });
    for (let prompt = 0; prompt < P; prompt++) {
      const half = Math.floor(R / 2);
      for (const rows of [
        Array.from({ length: half }, (_, r) => r),
        Array.from({ length: R - half }, (_, r) => half + r),
      ]) {
        await sidecar.ask('score', { prompt, rows, sums: rows.map((row) => sums[row]?.[prompt]) });
      }
    }
    const byRows = await sidecar.ask('finish', { outcomes: outcomesOf(small) });
    const path = join(directory, 'scores.safetensors');
    const header = encodeHeader(
      [{ name: 'logprobs', dtype: 'F32', shape: [P, R, T], bytes: 4 * P * R * T }],
      new Map(),
    );
    writeFileSync(path, Buffer.concat([header, Buffer.from(small.logprobs.data.buffer)]));
    await sidecar.ask('step', { step: 3, due: true, ...labelsOf(small) });
    expect(await sidecar.ask('score', { file: { path } })).not.toHaveProperty('error');
    const fromFile = await sidecar.ask('finish', { outcomes: outcomesOf(small) });

    await sidecar.ask('step', { step: 4, due: true, ...labelsOf(small) });
    for (let prompt = 0; prompt < P; prompt++) {
      const one = join(directory, `prompt${prompt}.safetensors`);
      const head = encodeHeader([{ name: 'z', dtype: 'F32', shape: [R, T], bytes: 4 * R * T }], new Map());
      const data = small.logprobs.data.slice(prompt * R * T, (prompt + 1) * R * T);
      writeFileSync(one, Buffer.concat([head, Buffer.from(data.buffer)]));
      expect(await sidecar.ask('score', { prompt, file: { path: one, tensor: 'z' } })).not.toHaveProperty('error');
    }
    const byFile = await sidecar.ask('finish', { outcomes: outcomesOf(small) });
    const figures = (answer: Json): unknown => ((answer.report as Json).stepMetrics as Json).values;
    expect(figures(byRows)).toEqual(figures(whole));
    expect(figures(fromFile)).toEqual(figures(whole));
    expect(figures(byFile)).toEqual(figures(whole));
  });

  it('tells numbers that JSON lacks by their place', async () => {
    const sidecar = started();
    await sidecar.ask('open', { options: { judge: false, filter: { nonFinite: 'exclude' } } });
    const small = smallStep(3);
    await sidecar.ask('step', { step: 1, ...labelsOf(small) });
    const sums: (number | null | string)[][] = await sumsOf(small);
    (sums[0] as (number | null)[])[1] = null;
    await sidecar.ask('score', { sums });
    const { report, nonFinite, error } = (await sidecar.ask('finish', {
      outcomes: { rewards: [null, ...small.outcomes.rewards.slice(1)] },
    })) as { report: Json; nonFinite: Json; error?: Json };
    expect(error).toBeUndefined();
    expect(((report.stepMetrics as Json).rows as Json).nonFinite).toEqual([0]);
    for (const [pointer, name] of Object.entries(nonFinite)) {
      const found = pointer
        .slice(1)
        .split('/')
        .reduce<unknown>((at, key) => (at as Json)[key.replaceAll('~1', '/').replaceAll('~0', '~')], report);
      expect([pointer, found, name]).toEqual([pointer, null, expect.stringMatching(/^(NaN|-?Infinity)$/)]);
    }
  });

  it('keeps that rewards were float32', async () => {
    const sidecar = started();
    const small = smallStep(2);
    await sidecar.ask('open', { options: { filter: { strategy: 'top_p', value: 0.9 } } });
    const values = Array.from(small.outcomes.rewards, () => Math.fround(0.1));
    values[0] = Math.fround(0.1) + 2 ** -30;
    await sidecar.ask('step', { step: 1, due: false, groups: labelsOf(small).groups });
    const answer = await sidecar.ask('finish', { outcomes: { rewards: { dtype: 'float32', values } } });
    expect(((answer.report as Json).filter as Json).kept).toEqual([]);
  });

  it('gives the figures of texts where nobody scores, and beside scores', async () => {
    const sidecar = started();
    await sidecar.ask('open', {});
    const words = ['north', 'south', 'east', 'west'];
    const groups = Array.from({ length: 32 }, (_, row) => Math.floor(row / 8));
    const rows = { texts: groups.map((group, row) => `go ${words[group]} now and then ${row % 3}`), groups };
    const rewards = groups.map((_, row) => row % 2);
    const alone = (await sidecar.ask('rollouts', { step: 1, rows, outcomes: { rewards } })) as Json;
    const report = alone.report as Json;
    expect((report.metrics as Json)['text/mi_bound']).toBeGreaterThan(0.5);
    expect((report.metrics as Json)['rollout/in_group_reward_std']).toBeGreaterThan(0);
    expect(report.due).toBe(false);
    await sidecar.ask('step', { step: 2, groups, due: false });
    const text = (await sidecar.ask('rollouts', { rows })).text as Json;
    const beside = (await sidecar.ask('finish', { outcomes: { rewards } })).report as Json;
    expect((beside.metrics as Json)['text/mi_bound']).toBe((text.values as Json).mi_bound);
    // Groups are known of the step.
    await sidecar.ask('step', { step: 3, groups, due: false });
    const short = (await sidecar.ask('rollouts', { rows: { texts: rows.texts } })).text as Json;
    expect((short.values as Json).mi_bound).toBe((text.values as Json).mi_bound);
    const again = await sidecar.ask('rollouts', { rows: { texts: rows.texts } });
    expect(again.error).toMatchObject({ argument: 'rollouts', message: expect.stringContaining('given before') });
    await sidecar.ask('finish', {});

    // And with token ids the prompts, by group: group 9 is the first column here.
    const tokens = groups.map((group, row) => [group + 10, group + 20, row % 3, 5]);
    const labels = { groups: groups.map((group) => 9 - group), promptTokens: [[13], [12], [11], [10]] };
    await sidecar.ask('step', { step: 4, due: false, ...labels });
    const given = { ...labels, promptTokens: groups.map((group) => [10 + group]), tokens };
    const whole = (await sidecar.ask('rollouts', { rows: given })).text as Json;
    expect((whole.prompts as Json).known).toBe(true);
    await sidecar.ask('finish', {});
    await sidecar.ask('step', { step: 5, due: false, ...labels });
    const inferred = (await sidecar.ask('rollouts', { rows: { tokens } })).text as Json;
    expect((inferred.values as Json).mi_bound).toBe((whole.values as Json).mi_bound);
  });

  it('takes environments with a step, or with rollouts that are one', async () => {
    const sidecar = started();
    await sidecar.ask('open', { options: { everySteps: 'never' } });
    const [groups, environments] = [
      [1, 1, 2, 2],
      ['math', 'math', 'code', 'code'],
    ];
    expect(await sidecar.ask('step', { step: 1, groups, environments })).toMatchObject({ due: false });
    expect(await sidecar.ask('finish', {})).toHaveProperty('report');
    const both = await sidecar.ask('step', { step: 2, groups, environments: ['math', 'code', 'code', 'code'] });
    expect(both.error).toMatchObject({ code: 'ERR_ARGUMENT', argument: 'environments' });
    expect((both.error as Json).message).toContain('prompt 1 is of environment "math" in one row and of "code"');
    const texts = ['a b', 'a c', 'd e', 'd f'];
    expect(await sidecar.ask('rollouts', { step: 2, rows: { groups, texts, environments } })).toHaveProperty('report');
    const one = { groups: ['x', 'x', 'x', 'x'], texts, environments };
    expect(((await sidecar.ask('rollouts', { step: 3, rows: one })).error as Json).message).toContain('"math"');
    await sidecar.ask('step', { step: 3, groups, environments });
    const other = { texts, environments: ['a', 'a', 'b', 'b'] };
    expect((await sidecar.ask('rollouts', { rows: other })).error).toMatchObject({ argument: 'rows.environments' });
    expect(await sidecar.ask('rollouts', { rows: { texts, environments } })).toHaveProperty('text');
  });

  it('names what is wrong, and goes on', async () => {
    const sidecar = started();
    expect(await sidecar.ask('step', { step: 1, groups: [0, 1] })).toMatchObject({ error: { code: 'ERR_PROTOCOL' } });
    expect(await sidecar.ask('open', { protocol: 2 })).toMatchObject({
      error: { code: 'ERR_PROTOCOL', message: expect.stringContaining('speaks 1') },
    });
    expect(await sidecar.ask('open', { options: { everySteps: 0 } })).toMatchObject({
      error: { code: 'ERR_ARGUMENT', argument: 'options.everySteps' },
    });
    expect(await sidecar.ask('open', { options: {} })).toHaveProperty('protocol', 1);
    const small = smallStep(1);
    await sidecar.ask('step', { step: 1, ...labelsOf(small) });
    expect(await sidecar.ask('score', { prompt: 99, sums: [1] })).toMatchObject({ error: { argument: 'prompt' } });
    expect(await sidecar.ask('score', { sums: [[0]], file: { path: 'x' } })).toMatchObject({
      error: { argument: 'score' },
    });
    expect(await sidecar.ask('score', { file: { path: '/none' } })).toMatchObject({ error: { code: 'ERR_FILE' } });
    expect(await sidecar.ask('score', { prompt: 0, summs: [] })).toMatchObject({
      error: { argument: 'request.summs', message: expect.stringContaining('sums') },
    });
    expect(await sidecar.ask('finish', {})).toMatchObject({ error: { code: 'ERR_ARGUMENT' } });
    expect(await sidecar.ask('score', { sums: await sumsOf(small) })).not.toHaveProperty('error');
    expect(await sidecar.ask('finish', { outcomes: outcomesOf(small) })).toHaveProperty('report');
    expect(await sidecar.ask('dance')).toMatchObject({ error: { message: expect.stringContaining('known are open') } });
    expect(await sidecar.ask('restore', { state: { format: 'x' } })).toMatchObject({ error: { code: 'ERR_STATE' } });
    expect(sidecar.errors()).toBe('');
  });

  it('opens once more until a step is opened', async () => {
    const sidecar = started();
    expect(await sidecar.ask('open', { options: { everySteps: 3 } })).toMatchObject({ options: { everySteps: 3 } });
    expect(await sidecar.ask('open', { options: { everySteps: 0 } })).toHaveProperty('error');
    // What failed changed nothing.
    expect(await sidecar.ask('open', { options: { negatives: 4 } })).toMatchObject({ options: { negatives: 4 } });
    await sidecar.ask('step', { step: 1, groups: [0, 0, 1, 1], lengths: [1, 1, 1, 1] });
    expect(await sidecar.ask('open', {})).toMatchObject({ error: { code: 'ERR_PROTOCOL' } });
    await sidecar.ask('abort');
    expect(await sidecar.ask('open', {})).toMatchObject({ lastStep: null });
    await sidecar.ask('step', { step: 1, groups: [0, 0, 1, 1], due: false });
    expect(await sidecar.ask('finish', {})).toHaveProperty('report');
    expect(await sidecar.ask('open', {})).toMatchObject({
      error: { code: 'ERR_PROTOCOL', message: expect.stringContaining('has taken steps; restore') },
    });
  });

  it('gives up the step that was opened first when 32 others are open', async () => {
    const sidecar = started();
    await sidecar.ask('open', {});
    const labels = { groups: [0, 0, 1, 1], due: false };
    for (let step = 1; step <= 33; step++) expect(await sidecar.ask('step', { step, ...labels })).toHaveProperty('due');
    expect(await sidecar.ask('finish', { step: 1 })).toMatchObject({
      error: {
        argument: 'step',
        message: expect.stringMatching(/^step 1 is not open; open are 2, .*, 33 \(at most 32\)$/),
      },
    });
    // The second is the next to go, unless it is opened again.
    await sidecar.ask('step', { step: 2, ...labels });
    await sidecar.ask('step', { step: 34, ...labels });
    expect(await sidecar.ask('abort', { step: 3 })).toHaveProperty('error');
    expect(await sidecar.ask('finish', { step: 2 })).toHaveProperty('report');
  });

  it('survives lines that are no requests', async () => {
    const sidecar = started();
    for (const line of ['not json', '[1]', '{"op":"open"}', '{"id":true,"op":"open"}', '{"id":1.5}', 'null', '"']) {
      sidecar.send(`${line}\n\n`);
      expect(await sidecar.stray(), line).toMatchObject({ id: null, error: { code: 'ERR_PROTOCOL' } });
    }
    sidecar.child.stdin.write(Buffer.from([0x7b, 0xff, 0xfe, 0x0a]));
    expect(await sidecar.stray()).toMatchObject({ error: { message: expect.stringContaining('UTF-8') } });
    sidecar.send('{"id":"a","op":7}\n');
    expect(await sidecar.stray()).toMatchObject({ id: 'a', error: { code: 'ERR_PROTOCOL' } });
    expect(await sidecar.ask('open')).toHaveProperty('protocol', 1);
  });

  it('answers a ping while the engine works', async () => {
    const sidecar = started();
    await sidecar.ask('open', { options: { permutations: 200_000 } });
    const groups = Array.from({ length: 128 }, (_, row) => Math.floor(row / 8));
    const texts = groups.map((group, row) =>
      Array.from({ length: 64 }, (_, at) => `w${(group * at + row) % 50}`).join(' '),
    );
    let isDone = false;
    const long = sidecar.ask('rollouts', { step: 1, rows: { texts, groups } }).then(() => {
      isDone = true;
    });
    expect(await sidecar.ask('ping')).toMatchObject({ waiting: 1 });
    expect(isDone).toBe(false);
    await long;
  });
});

describe('its end', () => {
  it('comes with close, when what was asked is answered', async () => {
    const sidecar = started();
    const answers = [sidecar.ask('open'), sidecar.ask('save'), sidecar.ask('close')];
    expect((await Promise.all(answers)).map((answer) => 'error' in answer)).toEqual([false, false, false]);
    expect(await sidecar.ended).toEqual({ code: 0, signal: null });
  });

  it('comes with the end of its input', async () => {
    const sidecar = started();
    const answer = sidecar.ask('open');
    sidecar.child.stdin.end();
    expect(await answer).toHaveProperty('protocol');
    expect(await sidecar.ended).toEqual({ code: 0, signal: null });
  });

  it('comes when nobody reads its answers', async () => {
    const sidecar = started();
    await sidecar.ask('open');
    sidecar.child.stdout.destroy();
    sidecar.send('{"id":9,"op":"save"}\n');
    expect((await sidecar.ended).code).toBe(0);
  });

  it.skipIf(process.platform === 'win32')(
    'comes with the process that --parent names, though the one that started it lives on',
    async () => {
      const trainer = spawn('sleep', ['60'], { stdio: 'ignore' });
      const sidecar = started('--parent', String(trainer.pid));
      expect(await sidecar.ask('open')).not.toHaveProperty('error');
      trainer.kill('SIGKILL');
      expect((await sidecar.ended).code).toBe(0);
    },
  );

  it.skipIf(process.platform === 'win32')(
    'comes with a parent that is killed, though another process keeps the pipe open',
    async () => {
      // The parent's other child inherits the pipe's end, as forked workers of a data loader do.
      const program = `
      const { spawn } = require('node:child_process');
      const sidecar = spawn(process.execPath, [${JSON.stringify(builtCommand)}, 'monitor'], { stdio: ['pipe', 'pipe', 'inherit'] });
      const keeper = spawn('sleep', ['60'], { stdio: ['ignore', 'ignore', 'ignore', sidecar.stdin._handle.fd] });
      sidecar.stdout.once('data', () => console.log(JSON.stringify([sidecar.pid, keeper.pid])));
      sidecar.stdin.write('{"id":1,"op":"open"}\\n');
      setInterval(() => {}, 1000);`;
      const parent = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
      const [sidecar, keeper] = await new Promise<[number, number]>((resolve) => {
        createInterface({ input: parent.stdout }).once('line', (line) => resolve(JSON.parse(line)));
      });
      try {
        parent.kill('SIGKILL');
        await expect.poll(() => isAlive(sidecar), { timeout: 5000 }).toBe(false);
      } finally {
        process.kill(keeper, 'SIGKILL');
      }
    },
  );

  it('holds no more than a few answers for a client that does not read', async () => {
    const child = spawn(process.execPath, [builtCommand, 'monitor', '--threads', '1']);
    child.stdin.on('error', () => undefined);
    let asked = 0;
    let refused = false;
    child.stdin.write('{"id":0,"op":"open"}\n');
    // Each answer has some 15 KB: 4,000 of them would be 60 MB.
    const line = `${JSON.stringify({ id: 1, op: 'save', padding: undefined })}\n`;
    const before = performance.now();
    while (performance.now() - before < 4000 && asked < 4000) {
      refused = !child.stdin.write(line);
      asked++;
      if (refused) await new Promise((resolve) => setTimeout(resolve, 5));
      if (child.stdin.writableLength > 200_000) break;
    }
    await new Promise((resolve) => setTimeout(resolve, 300));
    if (existsSync(`/proc/${child.pid}/statm`)) {
      expect(rssOf(child.pid as number)).toBeLessThan(300 * 2 ** 20);
    }
    let got = 0;
    createInterface({ input: child.stdout }).on('line', () => got++);
    child.stdin.end();
    await new Promise((resolve) => child.on('close', resolve));
    expect(got).toBe(asked + 1);
  });
});

describe('a run', () => {
  it('that is killed goes on from what was saved, byte for byte', async () => {
    const options = { everySteps: 3, filter: { strategy: 'top_p', value: 0.9 } };
    const whole = started();
    await whole.ask('open', { options });
    for (let n = 1; n <= 8; n++) await wholeStep(whole, n, smallStep(n));
    const reports = whole.lines
      .filter((line) => line.includes('"report"'))
      .map((line) => line.replace(/^\{"id":\d+/, ''));

    const first = started();
    await first.ask('open', { options });
    let state: unknown;
    for (let n = 1; n <= 5; n++) {
      await wholeStep(first, n, smallStep(n));
      if (n === 4) ({ state } = await first.ask('save'));
    }
    first.child.kill('SIGKILL');
    await first.ended;
    const second = started();
    expect(await second.ask('open', { state })).toMatchObject({ lastStep: 4 });
    for (let n = 5; n <= 8; n++) await wholeStep(second, n, smallStep(n));
    const later = second.lines
      .filter((line) => line.includes('"report"'))
      .map((line) => line.replace(/^\{"id":\d+/, ''));
    expect(later).toEqual(reports.slice(4));
  });

  // 100,000 by bench/sidecar.mjs.
  it('of 2,000 steps takes memory that does not grow', async () => {
    const sidecar = started();
    await sidecar.ask('open', { options: { everySteps: 1000, permutations: 0 } });
    const groups = [0, 0, 1, 1];
    let early = 0;
    for (let n = 1; n <= 2000; n++) {
      const [, answer] = await Promise.all([
        sidecar.ask('step', { step: n, groups, due: false }),
        sidecar.ask('finish', { outcomes: { rewards: [0, 1, n % 2, 1] } }),
      ]);
      expect(answer).toHaveProperty('report');
      sidecar.lines.length = 0;
      if (n === 1000) early = rssOf(sidecar.child.pid as number);
    }
    expect(rssOf(sidecar.child.pid as number)).toBeLessThan(early + 64 * 2 ** 20);
  });
});

describe.skipIf(process.platform === 'win32')('--listen', () => {
  it('serves several clients at a socket of the owner alone, each with a monitor of its own', async () => {
    const path = join(directory, 'sock');
    const sidecar = started('--listen', `unix:${path}`);
    await expect.poll(() => sidecar.errors(), { timeout: 10_000 }).toContain('listening');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const [one, two] = [connection(path), connection(path)];
    expect(await one('open', { options: { seed: 1 } })).toMatchObject({ options: { seed: 1 }, protocol: 1 });
    expect(await two('open', { options: { seed: 2 } })).toMatchObject({ options: { seed: 2 }, protocol: 1 });
    expect(await two('close')).not.toHaveProperty('error');
    expect(await one('step', { step: 1, groups: [0, 1], due: false })).toMatchObject({ due: false });
    const rival = started('--listen', `unix:${path}`);
    await rival.ended;
    expect(rival.errors()).toContain('served by another process');
    sidecar.child.kill('SIGTERM');
    await sidecar.ended;
    expect(existsSync(path)).toBe(false);
  });
});

function connection(path: string): (op: string, fields?: Json) => Promise<Json> {
  const socket = connect(path);
  const lines = createInterface({ input: socket });
  return (op, fields = {}) =>
    new Promise((resolve) => {
      lines.once('line', (line) => resolve(JSON.parse(line)));
      socket.write(`${JSON.stringify({ id: 1, op, ...fields })}\n`);
    });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Resident bytes; 0 where the system has no /proc. */
function rssOf(pid: number): number {
  const statm = `/proc/${pid}/statm`;
  if (!existsSync(statm)) return 0;
  return Number(readFileSync(statm, 'utf8').split(' ')[1]) * 4096;
}
