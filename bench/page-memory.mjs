// Days of steps through the live page in seconds: the memory of the browser's page and of its server, which must not grow.
// node bench/page-memory.mjs [--steps 5000]; needs `npm run compile`, and Chromium (COLLAPSAR_CHROMIUM names another).
// Every step has prompts that no other has, and a heat map: the curves alone may grow, by some 300 bytes a step.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { chromium } from 'playwright-core';
import { analyze } from '../dist/index.js';
import { LiveReport } from '../dist/serve/page/live-report.js';
import { PageServer } from '../dist/serve/page/page-server.js';
import { readOptions, whole } from '../scripts/options.mjs';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc');
const { steps } = readOptions({ steps: { read: whole(1), default: '5000' } });

const given = [];
for await (const report of analyze('examples/data/collapse', { permutations: 19 })) given.push(report);
const live = new LiveReport({ version: '', settings: {}, command: '' });
const server = await PageServer.listen(live, { host: '127.0.0.1', port: 0 });
let last = 0;
function add() {
  const report = given[Math.min(last, given.length - 1)];
  const step = ++last;
  const prompts = report.prompts?.map((prompt) => ({ ...prompt, prompt: `${step} ${prompt.prompt}` }));
  server.add({ ...report, step, record: { ...report.record, step }, prompts });
}

add();
const browser = await chromium.launch({
  executablePath: process.env.COLLAPSAR_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
try {
  const page = await browser.newPage();
  await page.goto(server.address);
  await page.waitForSelector('.story canvas');
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  await session.send('HeapProfiler.enable');
  console.log('step     page MB   nodes   server MB');
  while (last < steps) {
    for (let at = 0; at < 5; at++) add();
    // The page asks for these five at once.
    await page.waitForTimeout(50);
    if (last % 500 >= 5 && last < steps) continue;
    await page.waitForFunction(`document.body.innerText.includes('step ${last}:')`);
    for (let time = 0; time < 2; time++) await session.send('HeapProfiler.collectGarbage');
    gc();
    const { metrics } = await session.send('Performance.getMetrics');
    const measured = (name) => metrics.find((metric) => metric.name === name)?.value ?? Number.NaN;
    const columns = [measured('JSHeapUsedSize') / 2 ** 20, measured('Nodes'), process.memoryUsage().heapUsed / 2 ** 20];
    console.log([last, ...columns.map((value) => (Number.isInteger(value) ? value : value.toFixed(1)))].join('      '));
  }
} finally {
  await browser.close();
  await server.close();
}
