// `--to` of analyze, watch and the sidecar: what goes to sinks while results are what they are without.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { collapsar } from '../cli/cli-streams.js';
import { startSidecar } from '../serve/sidecar-client.js';
import { putStep, smallStep } from '../support/analysis-logs.js';
import { buildIfStale } from '../support/built-command.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

vi.setConfig({ testTimeout: 60_000 });

const root = temporaryDirectory();
let made = 0;
async function runOf(...steps: number[]): Promise<string> {
  const folder = join(root, `grpo-${made++}`);
  for (const step of steps) await putStep(join(folder, `step_${step}.safetensors`), smallStep(step));
  return folder;
}

beforeAll(buildIfStale, 180_000);

function eventsIn(folder: string): string {
  return readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), 'latin1'))
    .join();
}

describe('collapsar analyze --to', () => {
  it('gives every step to each sink, and prints what it prints without', async () => {
    const logs = await runOf(1, 2, 3);
    const board = join(root, 'board');
    const prom = join(root, 'c.prom');
    const plain = await collapsar(['analyze', logs, '--jsonl', '--quiet']);
    const sent = await collapsar([
      ...['analyze', logs, '--jsonl', '--quiet'],
      ...['--to', `tensorboard:${board}`, '--to', `prometheus:${prom}`],
    ]);
    expect(sent).toEqual(plain);
    expect(readdirSync(board)).toEqual([`grpo-${made - 1}`]);
    expect(readFileSync(prom, 'utf8')).toContain(`collapsar_training_step{run="grpo-${made - 1}"} 3\n`);
    expect(eventsIn(join(board, `grpo-${made - 1}`))).toContain('prompts/mi');
  });

  it('tells once of a sink that fails, and ends as without', async () => {
    const logs = await runOf(1, 2, 3);
    const file = join(root, 'taken');
    mkdirSync(file);
    const { status, out, err } = await collapsar(['analyze', logs, '--jsonl', '--quiet', '--to', `prometheus:${file}`]);
    expect(status).toBe(0);
    expect(out.trim().split('\n')).toHaveLength(3);
    expect(err.match(/^note: --to .* failed; .*$/gm)).toHaveLength(1);
    expect(err).toContain('this is a directory');
  });

  it('refuses a sink that it does not know, before it reads anything', async () => {
    const { status, err } = await collapsar(['analyze', join(root, 'none'), '--to', 'wandb:x']);
    expect(status).toBe(2);
    expect(err).toMatch(/It got "wandb:x", expected NAME:WHERE, where NAME is tensorboard, prometheus/);
  });

  it('keeps runs of one name in several folders apart', async () => {
    const folders = [join(root, 'a', 'same'), join(root, 'b', 'same')];
    for (const folder of folders) await putStep(join(folder, 'step_1.safetensors'), smallStep(1));
    const board = join(root, 'apart');
    await collapsar(['analyze', ...folders, '--jsonl', '--quiet', '--to', `tensorboard:${board}`]);
    expect(readdirSync(board).sort()).toEqual(['same', 'same (2)']);
  });
});

describe('collapsar watch --to', () => {
  it('gives each step that it tells of', async () => {
    const logs = await runOf(1, 2);
    const prom = join(root, 'w.prom');
    const board = join(root, 'watched');
    const to = ['--to', `prometheus:${prom}`, '--to', `tensorboard:${board}`];
    const { status } = await collapsar(['watch', logs, '--once', ...to]);
    expect(status).toBe(0);
    expect(readFileSync(prom, 'utf8')).toContain(`collapsar_training_step{run="grpo-${made - 1}"} 2\n`);
    expect(eventsIn(join(board, `grpo-${made - 1}`))).toContain('prompts/mi');
  });
});

describe('collapsar monitor --to', () => {
  it('gives what it answers to the sink, under the name that the client chose', async () => {
    const prom = join(root, 'm.prom');
    const sidecar = startSidecar(['--to', `prometheus:${prom}`]);
    await sidecar.ask('open', { options: { run: 'mine', permutations: 0 } });
    await sidecar.ask('step', { step: 7, groups: [1, 1, 2, 2], lengths: [1, 1, 1, 1], due: false });
    expect(await sidecar.ask('finish', { outcomes: { rewards: [0, 1, 1, 1] } })).toHaveProperty('report');
    await sidecar.ask('close');
    await sidecar.ended;
    expect(readFileSync(prom, 'utf8')).toContain('collapsar_training_step{run="mine"} 7\n');
  });

  it('refuses sinks from a client: they are the process’s', async () => {
    const sidecar = startSidecar();
    const { error } = await sidecar.ask('open', { options: { sinks: [] } });
    expect(error).toMatchObject({ argument: 'options.sinks' });
    sidecar.child.kill();
  });
});
