// `collapsar serve` as a process: logs that grow, on the page; and what it costs when nobody reads, or for days.
import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { Viewers } from '../../../src/serve/page/viewers.js';
import { collapsar } from '../../cli/cli-streams.js';
import { putStep, smallStep } from '../../support/analysis-logs.js';
import { buildIfStale, builtCommand } from '../../support/built-command.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { ask, dataAfter, listening } from './live-reports.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 200_000 });

const root = temporaryDirectory();
const ending: (() => void)[] = [];
beforeAll(buildIfStale);
afterEach(() => {
  for (const end of ending.splice(0)) end();
});

async function serving(...args: string[]) {
  const quick = ['--port', '0', '--permutations', '19', '--settle', '0.05', '--interval', '0.05', '--threads', '1'];
  const temporary = join(root, 'tmp');
  mkdirSync(temporary, { recursive: true });
  const child = spawn(process.execPath, [builtCommand, 'serve', ...args, ...quick], {
    env: { ...process.env, TMPDIR: temporary, COLLAPSAR_TOKEN: '' },
  });
  ending.push(() => child.kill('SIGKILL'));
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  const lines = createInterface({ input: child.stderr })[Symbol.asyncIterator]();
  const { value: address } = (await lines.next()) as { value: string };
  return { child, address, ended, temporary };
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 3000; tries++) {
    if (await condition()) return;
    await sleep(10);
  }
  expect.fail('it has not come to be');
}

describe('collapsar serve', () => {
  it('puts steps on the page as they are written, and ends when it is interrupted', async () => {
    const logs = join(root, 'grpo');
    for (const step of [1, 2, 3]) await putStep(join(logs, `step_${step}.safetensors`), smallStep(step));
    const { child, address, ended, temporary } = await serving(logs, '--to', `prometheus:${join(root, 'served.prom')}`);
    expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
    const viewer = listening(address);
    await viewer.opened;
    await until(async () => (await dataAfter(address)).runs[0]?.steps.length === 3);
    const { head } = await dataAfter(address);
    await putStep(join(logs, 'step_4.safetensors'), smallStep(4));
    await until(() => viewer.ids.at(-1) === 'grpo:4');
    const told = performance.now();
    const more = await dataAfter(address, head.cursor);
    // From the event to the data: what comes before is the analysis. A busy machine takes longer than a moment.
    expect(performance.now() - told).toBeLessThan(10_000);
    expect(Array.from(more.runs[0]?.steps ?? [])).toEqual([4]);
    expect((await ask(address, '/metrics')).body.toString()).toContain('collapsar_training_step{run="grpo"} 4\n');
    child.kill('SIGINT');
    expect(await ended).toBe(130);
    expect(readdirSync(temporary)).toEqual([]);
  });

  it('follows a rollout log that grows', async () => {
    const logs = join(root, 'rollouts');
    mkdirSync(logs);
    const rows = (step: number) =>
      Array.from({ length: 32 }, (_, row) => {
        const words = Array.from({ length: 8 }, (_, at) => `w${(row >> 2) * 5 + ((at * 7 + row) % 5)}`);
        return JSON.stringify({
          step,
          group: row >> 2,
          prompt: `p${row >> 2}`,
          output: words.join(' '),
          reward: row % 2,
        });
      }).join('\n');
    const path = join(logs, 'log.jsonl');
    writeFileSync(path, `${rows(1)}\n${rows(2)}\n`);
    const { address } = await serving(logs);
    await until(async () => (await dataAfter(address)).runs[0]?.steps.length === 2);
    writeFileSync(path, `${rows(3)}\n`, { flag: 'a' });
    await until(async () => (await dataAfter(address)).runs[0]?.steps.length === 3);
    expect((await dataAfter(address)).runs[0]?.head.instrument).toBe('texts');
  });

  it('is wrong usage for an address of others without a token', async () => {
    const { status, err } = await collapsar(['serve', root, '--host', '0.0.0.0', '--port', '0']);
    expect(status).toBe(2);
    expect(err).toMatch(/give a --token/);
  });
});

describe('Viewers', () => {
  it('lets go of one that does not read, instead of holding what it does not take', async () => {
    const viewers = new Viewers();
    const server = createServer((_, response) => viewers.add(response, undefined));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    socket.on('error', () => undefined);
    ending.push(() => {
      socket.destroy();
      viewers.close();
      server.close();
    });
    socket.pause();
    socket.write('GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await until(() => viewers.count === 1);
    const run = 'x'.repeat(10_000);
    let told = 0;
    while (viewers.count > 0 && told < 10_000) {
      viewers.tell(run, told++);
      if (told % 10 === 0) await sleep(0);
    }
    expect(viewers.count).toBe(0);
    expect(told).toBeLessThan(10_000);
  });
});
