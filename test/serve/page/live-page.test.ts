// The live page in a browser: steps appear on it, under the policy that the server sends. Runs where there is a
// Chromium, as test/report/report-page.test.ts.
import { existsSync } from 'node:fs';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { LiveReport } from '../../../src/serve/page/live-report.js';
import { PageServer } from '../../../src/serve/page/page-server.js';
import type { StepReport } from '../../../src/step/step-report.js';
import { buildIfStale } from '../../support/built-command.js';
import { collapseSteps } from './live-reports.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 200_000 });

const executable = [process.env.COLLAPSAR_CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser'].find(
  (path) => path !== undefined && existsSync(path),
);

describe.skipIf(executable === undefined)('the live page in Chromium', () => {
  let browser: Browser;
  let steps: StepReport[];
  const said: string[] = [];

  beforeAll(async () => {
    buildIfStale();
    browser = await chromium.launch({ executablePath: executable as string, args: ['--no-sandbox'] });
    steps = await collapseSteps();
  });
  afterAll(() => browser?.close());

  async function listen(port = 0, token?: string): Promise<PageServer> {
    const live = new LiveReport({ version: '1', settings: {}, command: 'collapsar report x' });
    return PageServer.listen(live, { host: '127.0.0.1', port, token });
  }

  async function opened(address: string): Promise<Page> {
    const page = await browser.newPage();
    said.length = 0;
    page.on('console', (message) => said.push(message.text()));
    page.on('pageerror', (error) => said.push(error.message));
    await page.goto(address);
    return page;
  }

  /** The first screen in words. */
  const top = async (page: Page): Promise<string> =>
    (await page.locator('main').innerText()).split('\n').slice(0, 12).join(' ');

  it('shows a step soon after its measurement, and the verdict when it is said', async () => {
    const server = await listen();
    const said140 = steps.findIndex(({ judgement }) =>
      judgement?.verdicts.some(({ severity }) => severity === 'critical'),
    );
    for (const step of steps.slice(0, said140)) server.add(step);
    const page = await opened(server.address);
    await page.waitForSelector('.story canvas');
    expect(await top(page)).not.toContain('template collapse');
    const alarm = steps[said140] as StepReport;
    await page.evaluate(`new Promise((resolve) => {
      window.shown = new Promise((shown) => {
        const look = () => (/template collapse/.test(document.querySelector('main').innerText.split('\\n').slice(0, 12).join(' ')) ? shown(Date.now()) : setTimeout(look, 10));
        look();
      });
      resolve();
    })`);
    const measured = Date.now();
    server.add(alarm);
    const shown = (await page.evaluate('window.shown')) as number;
    // A machine that does much else beside this takes longer than the second that is asked for.
    expect(shown - measured).toBeLessThan(5000);
    expect(said).toEqual([]);
    await page.close();
    await server.close();
  });

  it('goes on with a server that was started anew, and brings its token to every request', async () => {
    const first = await listen(0, 'secret');
    const port = Number(new URL(first.address).port);
    first.add(steps[0] as StepReport);
    const page = await opened(first.address);
    await page.waitForSelector('.story canvas');
    await first.close();
    const second = await listen(port, 'secret');
    const before = steps.slice(0, 30);
    for (const step of before) second.add(step);
    const last = new RegExp(`\\b${before.at(-1)?.step}\\b`);
    await expect.poll(() => top(page), { timeout: 20_000 }).toMatch(last);
    // What Chromium itself says of a connection that was lost.
    expect(said.filter((text) => !/Failed to load resource|net::ERR/.test(text))).toEqual([]);
    await page.close();
    await second.close();
  });
});
