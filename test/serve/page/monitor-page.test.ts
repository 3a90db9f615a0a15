// The page of a sidecar as a process: a step that is finished is on it at once, with what the answer says.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { appended } from '../../../src/report/payload/append.js';
import type { StepReport } from '../../../src/step/step-report.js';
import { buildIfStale } from '../../support/built-command.js';
import { type Sidecar, startSidecar } from '../sidecar-client.js';
import { ask, dataAfter, listening } from './live-reports.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 200_000 });

beforeAll(buildIfStale);
const ending: (() => void)[] = [];
afterEach(() => {
  for (const end of ending.splice(0)) end();
});

function started(args: readonly string[]): Sidecar {
  const sidecar = startSidecar(args);
  ending.push(() => sidecar.child.kill('SIGKILL'));
  return sidecar;
}

const [PROMPTS, ROWS] = [6, 24];
const groups = Array.from({ length: ROWS }, (_, row) => row % PROMPTS);

/** Each row fits its own prompt best, the less the later the step. */
function sumsAt(step: number): number[][] {
  return groups.map((group, row) =>
    Array.from(
      { length: PROMPTS },
      (_, prompt) => (prompt === group ? -4 : -4 - 6 / step) - ((row * 7 + prompt * 3) % 5) / 8,
    ),
  );
}

async function giveStep(sidecar: Sidecar, step: number): Promise<StepReport> {
  const { due } = await sidecar.ask('step', { step, groups, lengths: groups.map(() => 8) });
  if (due === true) await sidecar.ask('score', { sums: sumsAt(step) });
  const rewards = groups.map((group, row) => (row * 5 + group) % 2);
  return (await sidecar.ask('finish', { outcomes: { rewards } })).report as StepReport;
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; !condition() && tries < 2000; tries++) await sleep(5);
  expect(condition()).toBe(true);
}

const MI = 'collapse_first_turn_sample/mi_seq_estimate';

describe('collapsar monitor --serve', () => {
  it('tells the page of a finished step soon, with the figures of its answer', async () => {
    const sidecar = started(['--serve', '0']);
    const options = { run: 'grpo', permutations: 99, filter: { strategy: 'top_p', value: 0.9 } };
    const { page } = await sidecar.ask('open', { options });
    const address = page as string;
    expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
    expect(sidecar.errors()).toBe(`${address}\n`);
    const viewer = listening(address);
    await viewer.opened;
    const reports: StepReport[] = [];
    const delays: number[] = [];
    let shown = await dataAfter(address);
    // Due: 1 to 5, the start; then every fifth.
    for (let step = 1; step <= 12; step++) {
      reports.push(await giveStep(sidecar, step));
      const finished = performance.now();
      await until(() => viewer.ids.at(-1) === `grpo:${step}`);
      shown = appended(shown, await dataAfter(address, shown.head.cursor));
      delays.push(performance.now() - finished);
    }
    viewer.close();
    expect(Math.max(...delays)).toBeLessThan(10_000);
    const [run] = shown.runs;
    expect(Array.from(run?.steps ?? [])).toEqual(reports.map(({ step }) => step));
    expect(run?.figures.mi).toEqual(Float32Array.from(reports, ({ metrics }) => metrics[MI] ?? Number.NaN));
    const reward = reports.map(({ metrics }) => metrics['rollout/in_group_reward_mean'] as number);
    expect(run?.figures.reward).toEqual(Float32Array.from(reward));
    // What the page had before it knew that there are steps between has no mark.
    const due = reports.map((report) => report.due);
    expect(Array.from(run?.figures.measured ?? [], (value) => value !== 0)).toEqual(due);
    expect(due.filter(Boolean)).toHaveLength(6);
    expect(run?.matrices.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 10]);
    expect(run?.matrices[0]?.ids).toEqual(['0', '1', '2', '3', '4', '5']);
    const kept = reports[0]?.filter?.kept.map(String) ?? [];
    const first = Array.from(run?.prompts?.prompt.subarray(0, PROMPTS) ?? [], (at) => run?.prompts?.ids[at]);
    expect(first.filter((_, at) => run?.prompts?.kept[at] === 1).sort()).toEqual(kept.sort());
    const mi = run?.prompts?.mi.subarray(0, PROMPTS) ?? new Float32Array();
    expect(mi.reduce((a, b) => a + b) / PROMPTS).toBeCloseTo(reports[0]?.metrics[MI] as number, 5);
    const metrics = (await ask(address, '/metrics')).body.toString();
    expect(metrics).toContain('collapsar_training_step{run="grpo"} 12\n');
    sidecar.child.stdin.end();
    expect((await sidecar.ended).code).toBe(0);
  });

  it('shows texts of rows that nobody scores, with their heat map', async () => {
    const sidecar = started(['--serve', '0']);
    const { page } = await sidecar.ask('open', { options: { permutations: 9 } });
    const texts = groups.map((group, row) =>
      Array.from({ length: 9 }, (_, at) => `w${group * 4 + ((at * 5 + row) % 4)}`).join(' '),
    );
    const { report } = await sidecar.ask('rollouts', { step: 3, rows: { texts, groups } });
    const [run] = (await dataAfter(page as string)).runs;
    expect(run?.head.instrument).toBe('texts');
    expect(run?.figures.mi?.[0]).toBe(Math.fround((report as StepReport).metrics['text/mi_bound'] as number));
    expect(run?.matrices[0]?.source).toBe('texts');
    const [shown] = run?.texts ?? [];
    expect([shown?.step, shown?.rows, shown?.rollouts.length]).toEqual([3, texts.length, Math.min(16, texts.length)]);
    for (const { row, group, reasoning, nats, reward } of shown?.rollouts ?? []) {
      expect([reasoning, group, nats.length, reward]).toEqual([texts[row], String(groups[row]), 9, null]);
    }
  });

  it('begins anew beside what it showed where a run is restored to an earlier step', async () => {
    const sidecar = started(['--serve', '0']);
    const { page } = await sidecar.ask('open', { options: { run: 'a', permutations: 0 } });
    await giveStep(sidecar, 1);
    const { state } = await sidecar.ask('save');
    await giveStep(sidecar, 2);
    await sidecar.ask('restore', { state, options: { run: 'a' } });
    await giveStep(sidecar, 2);
    await giveStep(sidecar, 3);
    const { runs } = await dataAfter(page as string);
    expect(runs.map(({ head, steps }) => [head.name, ...steps])).toEqual([
      ['a', 1, 2],
      ['a (2)', 2, 3],
    ]);
  });

  it('goes on without a page where another process has the port, and says so', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    ending.push(() => taken.close());
    const sidecar = started(['--serve', String((taken.address() as AddressInfo).port)]);
    const { page, pageProblem } = await sidecar.ask('open', { options: { permutations: 0 } });
    expect(page).toBeUndefined();
    expect(pageProblem).toMatch(/cannot listen at 127\.0\.0\.1:\d+: .*EADDRINUSE/);
    expect((await giveStep(sidecar, 1)).step).toBe(1);
    expect(sidecar.errors()).toMatch(/^note: no page: /);
  });

  it('refuses other hosts and sites, and listens to other machines with a token alone', async () => {
    const sidecar = started(['--serve', '0', '--token', 'secret']);
    const { page } = await sidecar.ask('open', {});
    const address = page as string;
    expect((await ask(address, '/data')).status).toBe(401);
    expect((await ask(address, '/data?token=secret')).status).toBe(200);
    expect((await ask(address, '/data?token=secret', { origin: 'http://evil.example' })).status).toBe(403);
    const open = started(['--serve', '0', '--host', '0.0.0.0']);
    expect((await open.ended).code).toBe(2);
    expect(open.errors()).toMatch(/give a --token/);
  });
});
