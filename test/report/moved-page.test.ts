// A page that was moved somewhere shows the pixels of a page that was opened there: charts are drawn again in their
// places, and nothing of what they showed before may stay. Runs where there is a Chromium, as report-page.test.ts does.
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pageHtml, payloadOf } from '../../src/report/page-html.js';
import { collapsar } from '../cli/cli-streams.js';
import { buildIfStale } from '../support/built-command.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { headOf, reportOf, runOf, stretchOf } from './reports.js';

const executable = [process.env.COLLAPSAR_CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser'].find(
  (path) => path !== undefined && existsSync(path),
);

type Move = (page: Page) => Promise<unknown>;

/** Asks again and again, at most 15 s long. */
async function waitUntil(holds: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 15_000;
  while (!(await holds()) && performance.now() < end);
}

const keys =
  (...names: string[]): Move =>
  async (page) => {
    await page.locator('.story .keys').focus();
    for (const name of names) await page.keyboard.press(name);
  };
/** Over every chart that answers to the mouse. */
const hover: Move = async (page) => {
  for (const overlay of await page.locator('.overlay').all()) {
    await overlay.scrollIntoViewIfNeeded();
    const box = await overlay.boundingBox();
    if (box === null) continue;
    for (const share of [0.2, 0.7, 0.45]) {
      await page.mouse.move(box.x + share * box.width, box.y + share * box.height);
    }
  }
};
const toRun =
  (name: string): Move =>
  (page) =>
    page.locator('button.run', { hasText: name }).first().click();
const press =
  (name: string | RegExp, at = 0): Move =>
  (page) =>
    page.getByRole('button', { name, exact: true }).nth(at).click();
const lookCloser: Move = async (page) => {
  const overlay = page.locator('.story .overlay');
  await overlay.scrollIntoViewIfNeeded();
  const box = (await overlay.boundingBox()) as { x: number; y: number };
  await page.mouse.move(box.x + 300, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 600, box.y + 60, { steps: 3 });
  await page.mouse.up();
};
const layer =
  (at: number): Move =>
  (page) =>
    page.locator('.choices button').nth(at).click();
const choose =
  (at: number): Move =>
  (page) =>
    page.locator('.legend input').nth(at).click();
const resize =
  (width: number): Move =>
  (page) =>
    page.setViewportSize({ width, height: 720 });
const colours =
  (colorScheme: 'light' | 'dark'): Move =>
  (page) =>
    page.emulateMedia({ colorScheme });

describe.skipIf(executable === undefined)('a page that was moved', () => {
  const folder = temporaryDirectory();
  const shipped = join(folder, 'shipped.html');
  const texts = join(folder, 'texts.html');
  let browser: Browser;

  beforeAll(async () => {
    buildIfStale();
    browser = await chromium.launch({ executablePath: executable as string, args: ['--no-sandbox'] });
    await collapsar(['report', 'examples/data', '-o', shipped, '--quiet']);
    await collapsar(['report', 'examples/rollouts', '-o', texts, '--quiet']);
  }, 180_000);
  afterAll(() => browser?.close());

  async function open(path: string, { width = 1280, dark = false, hash = '' } = {}): Promise<Page> {
    const context = await browser.newContext({
      viewport: { width, height: 720 },
      colorScheme: dark ? 'dark' : 'light',
      offline: true,
    });
    const page = await context.newPage();
    await page.goto(`${pathToFileURL(path).href}${hash}`);
    await page.waitForSelector('.story canvas');
    await page.evaluate(`for (const details of document.querySelectorAll('details')) details.open = true`);
    return page;
  }

  /** Every chart that is drawn, by what it is, as pixels. */
  const drawn = (page: Page): Promise<Record<string, string>> =>
    page.evaluate<Record<string, string>>(`Object.fromEntries(
      [...document.querySelectorAll('.chart [role=img]')].map((chart) => [
        chart.getAttribute('aria-label'),
        [...chart.querySelectorAll('canvas')].map((canvas) => canvas.toDataURL()).join(),
      ]))`);

  /** The address and the charts of a page whose cursor rests, once neither changes any more. */
  async function settled(page: Page): Promise<{ hash: string; pixels: Record<string, string> }> {
    await page.mouse.move(1, 1);
    let now = { hash: '', pixels: {} };
    await waitUntil(async () => {
      const before = now;
      // Longer than the page waits before it writes its address, and before it draws what follows a resting cursor.
      await page.waitForTimeout(400);
      now = { hash: await page.evaluate<string>('location.hash'), pixels: await drawn(page) };
      return isDeepStrictEqual(now, before);
    });
    return now;
  }

  /** Which buttons are pressed and which boxes ticked: what the address does not say. */
  const choices = (page: Page): Promise<string[]> =>
    page.evaluate<
      string[]
    >(`[...document.querySelectorAll('.chart button[aria-pressed], .choices button[aria-pressed]')]
      .map((button) => button.getAttribute('aria-pressed'))`);

  /** A page opened at an address, with the window, colours and buttons of another. */
  async function openLike(moved: Page, path: string, hash: string): Promise<Page> {
    const [width, dark, chosen] = [
      moved.viewportSize()?.width as number,
      await moved.evaluate<boolean>(`matchMedia('(prefers-color-scheme: dark)').matches`),
      await choices(moved),
    ];
    const fresh = await open(path, { width, dark, hash });
    for (const [at, pressed] of chosen.entries()) {
      const button = fresh.locator('.chart button[aria-pressed], .choices button[aria-pressed]').nth(at);
      if ((await button.getAttribute('aria-pressed')) !== pressed && pressed === 'true') await button.click();
    }
    expect(await choices(fresh)).toEqual(chosen);
    return fresh;
  }

  async function expectFresh(path: string, moved: Page): Promise<void> {
    let different: string[] = [];
    // A busy machine may stop a page between its timers, so that it looks settled: then it is compared again.
    await waitUntil(async () => {
      const { hash, pixels } = await settled(moved);
      const fresh = await openLike(moved, path, hash);
      const expected = (await settled(fresh)).pixels;
      await fresh.context().close();
      const names = Object.keys(expected);
      expect(names.length).toBeGreaterThan(1);
      different = [...new Set([...names, ...Object.keys(pixels)])].filter((name) => pixels[name] !== expected[name]);
      return different.length === 0;
    });
    expect(different).toEqual([]);
    await moved.context().close();
  }

  it.each<[how: string, ...Move[]]>([
    ['the cursor by keys and the mouse', keys('Home', 'ArrowRight', 'PageDown'), hover, keys('End', '[', '[')],
    ['the run', toRun('healthy'), keys('Home'), toRun('filtered'), keys('PageDown'), toRun('collapse')],
    ['the layer of the heat map', keys('Home'), press('Nats'), keys('End', '['), press('Nats'), press('Nats')],
    ['the layer of the prompts', layer(1), keys('PageUp'), layer(2), toRun('healthy'), layer(0), toRun('collapse')],
    ['a stretch of steps', lookCloser, hover, keys('ArrowLeft')],
    ['the colours', colours('dark'), keys('Home'), colours('light'), keys('End'), colours('dark')],
    ['the size of the window', resize(700), keys('[', '['), resize(1280), resize(900)],
    ['the runs side by side', choose(0), choose(0), choose(1), toRun('healthy'), keys('Home')],
  ])('by %s shows the pixels of a page that was opened there', async (_, ...moves) => {
    const page = await open(shipped, { hash: '#run=collapse' });
    for (const move of moves) await move(page);
    await expectFresh(shipped, page);
  });

  it.each<[how: string, ...Move[]]>([
    ['the cursor', keys('Home', 'ArrowRight'), hover, keys('End', '[')],
    ['all of it', press('Nats'), colours('dark'), keys('Home'), resize(800), hover, lookCloser, keys('[')],
  ])('by %s does so for a log of texts', async (_, ...moves) => {
    const page = await open(texts);
    for (const move of moves) await move(page);
    await expectFresh(texts, page);
  });

  it('by steps that came shows the pixels of a page that had them', async () => {
    const [path, grown] = [join(folder, 'grows.html'), join(folder, 'grown.html')];
    const steps = [1, 2, 3, 4, 5, 6];
    const mi = [2, 2, 1.8, 0.4, 0.3, 0.2];
    const verdicts = [
      stretchOf({ since: 4, raised: 4, until: 6 }),
      stretchOf({ kind: 'mi_falling', since: 3, until: 6 }),
    ];
    const whole = (name: string) => runOf(steps, { mi, entropy: mi, retrieval: mi }, headOf(name, { verdicts }));
    writeFileSync(grown, await pageHtml(reportOf(whole('a'), whole('b'))));
    const first = (name: string) =>
      runOf(steps.slice(0, 2), { mi: [2, 2], entropy: [2, 2], retrieval: [2, 2] }, headOf(name));
    writeFileSync(path, await pageHtml(reportOf(first('a'), first('b'))));
    const page = await open(path);
    const rest = (name: string) =>
      runOf(
        steps.slice(2),
        { mi: mi.slice(2), entropy: mi.slice(2), retrieval: mi.slice(2) },
        {
          ...headOf(name, { verdicts }),
          count: 6,
        },
      );
    const more = await payloadOf(reportOf(rest('a'), rest('b')));
    await page.evaluate(`
      dispatchEvent(new CustomEvent('collapsar:payload', { detail: Uint8Array.from(${JSON.stringify([...more])}) }))`);
    await page.getByText('step 6: MI 0.200').waitFor();
    await page.evaluate(`for (const details of document.querySelectorAll('details')) details.open = true`);
    await expectFresh(grown, page);
  });
});
