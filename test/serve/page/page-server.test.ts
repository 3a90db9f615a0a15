// The live page: what it answers, whom it refuses, and what it costs when many look for long.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { analyze } from '../../../src/analysis/analyze.js';
import { appended } from '../../../src/report/payload/append.js';
import { decodeReport } from '../../../src/report/payload/payload.js';
import type { Report } from '../../../src/report/report.js';
import { LiveReport } from '../../../src/serve/page/live-report.js';
import { PageServer, type PageServerOptions } from '../../../src/serve/page/page-server.js';
import { isLoopback, refusal } from '../../../src/serve/page/request-guard.js';
import type { StepReport } from '../../../src/step/step-report.js';
import { exampleRollouts } from '../../support/analysis-logs.js';
import { buildIfStale } from '../../support/built-command.js';
import { ask, collapseSteps, dataAfter, listening } from './live-reports.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 200_000 });

let steps: StepReport[];
beforeAll(async () => {
  // dist/ has the page.
  buildIfStale();
  steps = await collapseSteps();
});

const open: PageServer[] = [];
afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
});

async function served(options: Partial<PageServerOptions> = {}): Promise<PageServer> {
  const live = new LiveReport({ version: '1', settings: {}, command: 'collapsar report x' });
  const server = await PageServer.listen(live, { host: '127.0.0.1', port: 0, ...options });
  open.push(server);
  return server;
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; !condition() && tries < 1000; tries++) await sleep(5);
  expect(condition()).toBe(true);
}

describe('GET /', () => {
  it('is the page, which may run its own script and ask its own server, and nothing else', async () => {
    const { address } = await served();
    const { status, headers, body } = await ask(address, '/');
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('text/html; charset=utf-8');
    const policy = headers['content-security-policy'] as string;
    expect(policy).toMatch(/default-src 'none'; script-src 'sha256-[^']+'/);
    expect(policy).toContain("connect-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain('unsafe');
    expect(headers['x-content-type-options']).toBe('nosniff');
    expect(headers['referrer-policy']).toBe('no-referrer');
    expect(body.toString()).toContain('<div id="page">');
  });

  it('takes a thousand connections at a time, and no more', async () => {
    const { address } = await served();
    const { hostname, port } = new URL(address);
    const sockets: Socket[] = [];
    let dropped = 0;
    try {
      for (let at = 0; at < 1003; at++) {
        const socket = connect(Number(port), hostname);
        socket.on('error', () => undefined);
        socket.on('close', () => dropped++);
        sockets.push(socket);
        await once(socket, 'connect');
      }
      await until(() => dropped === 3);
      await sleep(50);
      expect(dropped).toBe(3);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  });

  it('answers no other address and no other method', async () => {
    const { address } = await served();
    expect((await ask(address, '/../etc/passwd')).status).toBe(404);
    expect((await ask(address, '/matrix/none/1')).status).toBe(404);
    expect((await ask(address, '/matrix/%E0%A4/1')).status).toBe(404);
    expect((await ask(address, '//')).status).toBeGreaterThanOrEqual(400);
    const posted = await ask(address, '/data', {}, 'POST');
    expect([posted.status, posted.headers.allow]).toEqual([405, 'GET, HEAD']);
  });
});

describe('GET /data', () => {
  it('gives what came after a cursor, which appended is the whole, to the number', async () => {
    const server = await served();
    const { address } = server;
    let page: Report | undefined;
    for (const [at, step] of steps.entries()) {
      server.add(step);
      if (at % 7 !== 0) continue;
      const more = await dataAfter(address, page?.head.cursor);
      if (page !== undefined) expect(more.runs[0]?.steps).toHaveLength(7);
      page = page === undefined ? more : appended(page, more);
    }
    page = appended(page as Report, await dataAfter(address, page?.head.cursor));
    const whole = await dataAfter(address);
    const [live, all] = [page.runs[0], whole.runs[0]];
    expect(live?.steps).toEqual(Float64Array.from(steps, ({ step }) => step));
    expect(live?.figures).toEqual(all?.figures);
    expect(live?.head).toEqual(all?.head);
    const mi = steps.map(({ record }) => record['collapse_first_turn_sample/mi_seq_estimate'] as number);
    expect(all?.figures.mi).toEqual(Float32Array.from(mi));
    expect(all?.prompts?.step.length).toBeGreaterThan(0);
  });

  it('gives everything for a cursor of another server', async () => {
    const [first, second] = [await served(), await served()];
    for (const server of [first, second]) for (const step of steps.slice(0, 3)) server.add(step);
    const { head } = await dataAfter(first.address);
    const { head: after, runs } = await dataAfter(second.address, head.cursor);
    expect(after.after).toBe('');
    expect(runs[0]?.steps).toHaveLength(3);
  });
});

describe('GET /matrix/RUN/STEP', () => {
  it('gives the heat map of a step, whatever the run is called', async () => {
    const server = await served();
    const run = 'a/b ü"<script>';
    const step = { ...(steps[0] as StepReport), run };
    server.add({ ...step, record: { ...step.record, run } });
    const { status, body } = await ask(server.address, `/matrix/${encodeURIComponent(run)}/${step.step}`);
    expect(status).toBe(200);
    const { posterior, ids, prompts } = JSON.parse(body.toString()) as {
      posterior: string;
      ids: string[];
      prompts: number;
    };
    expect(ids).toEqual(step.matrix?.ids);
    expect(prompts).toBe(ids.length);
    expect(new Uint8Array(Buffer.from(posterior, 'base64'))).toEqual(
      new Uint8Array(step.matrix?.posterior as Uint8Array),
    );
  });
});

describe('GET /metrics', () => {
  it('is what Prometheus scrapes', async () => {
    const server = await served();
    for (const step of steps) server.add(step);
    const { headers, body } = await ask(server.address, '/metrics');
    expect(headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(body.toString()).toContain(`collapsar_training_step{run="collapse"} ${steps.at(-1)?.step}\n`);
  });
});

describe('GET /events', () => {
  it('tells every step, and after Last-Event-ID what was missed', async () => {
    const server = await served();
    const first = listening(server.address);
    await first.opened;
    const ids = steps.slice(0, 6).map(({ run, step }) => `${run}:${step}`);
    for (const step of steps.slice(0, 3)) server.add(step);
    await until(() => first.ids.length === 3);
    first.close();
    for (const step of steps.slice(3, 6)) server.add(step);
    const second = listening(server.address, first.ids.at(-1));
    await until(() => second.ids.length === 3);
    expect([...first.ids, ...second.ids]).toEqual(ids);
    const stranger = listening(server.address, 'of:another');
    await until(() => stranger.ids.length === 1);
    expect(stranger.ids).toEqual(ids.slice(-1));
  });

  it('tells fifty viewers soon, and lets go of those that leave', async () => {
    const server = await served();
    const viewers = Array.from({ length: 50 }, () => listening(server.address));
    await Promise.all(viewers.map(({ opened }) => opened));
    expect(server.viewers).toBe(50);
    const began = performance.now();
    server.add(steps[0] as StepReport);
    await until(() => viewers.every(({ ids }) => ids.length === 1));
    const reports = await Promise.all(viewers.map(() => dataAfter(server.address)));
    // A tenth of a second by itself; a busy machine takes longer.
    expect(performance.now() - began).toBeLessThan(10_000);
    for (const { runs } of reports) expect(runs[0]?.steps).toHaveLength(1);
    for (const { close } of viewers) close();
    await until(() => server.viewers === 0);
  });

  it('is one line an event, whatever a run is called', async () => {
    const server = await served();
    const viewer = listening(server.address);
    await viewer.opened;
    const step = { ...(steps[0] as StepReport), run: 'a\nid: b\n\ndata: c \ud800' };
    server.add(step);
    await until(() => viewer.ids.length === 1);
    expect(decodeURIComponent(viewer.ids[0] as string)).toBe(`a\nid: b\n\ndata: c \ufffd:${step.step}`);
    viewer.close();
  });
});

describe('what the page may be asked by', () => {
  it('refuses another host, another origin and another site, at every address', async () => {
    const { address } = await served();
    const port = new URL(address).port;
    for (const path of ['/', '/data', '/events', '/metrics', '/matrix/r/1']) {
      for (const headers of [
        { host: `evil.example:${port}` },
        { host: '127.0.0.1.evil.example' },
        { host: 'localhost.' },
        { origin: 'http://evil.example' },
        { origin: 'null' },
        { origin: 'http://localhost:1' },
        { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image' },
      ] as Record<string, string>[]) {
        const { status, body } = await ask(address, path, headers);
        expect([path, headers, status]).toEqual([path, headers, 403]);
        expect(body.length).toBeLessThan(200);
      }
    }
  });

  it('answers its own page, a tunnel with another port, and a link on another site', async () => {
    const { address } = await served();
    const { host } = new URL(address);
    for (const headers of [
      { host, origin: `http://${host}`, 'sec-fetch-site': 'same-origin' },
      { host: 'localhost:9000' },
      { host: '[::1]:7577' },
      { host, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
    ] as Record<string, string>[]) {
      expect((await ask(address, '/', headers)).status).toBe(200);
    }
  });

  it('asks every request for its token where it has one', async () => {
    const { address } = await served({ token: 's3cret/ü' });
    expect(address).toContain('?token=s3cret%2F%C3%BC');
    const { search } = new URL(address);
    for (const path of ['/', '/data', '/events', '/metrics']) {
      expect((await ask(address, path)).status).toBe(401);
      expect((await ask(address, `${path}?token=s3cret`)).status).toBe(401);
      if (path !== '/events') expect((await ask(address, `${path}${search}`)).status).toBe(200);
    }
    expect((await ask(address, `/${search}`, { host: 'gpu-box:80' })).status).toBe(200);
    expect((await ask(address, `/${search}`, { origin: 'http://evil.example' })).status).toBe(403);
    const plain = await served({ token: 'plain' });
    expect((await ask(plain.address, '/metrics', { authorization: 'Bearer plain' })).status).toBe(200);
  });

  it('does not listen to other machines without a token', async () => {
    await expect(served({ host: '0.0.0.0' })).rejects.toThrow(/can be reached from other machines: give a --token/);
    await expect(served({ host: '::' })).rejects.toThrow(/--token/);
    await served({ host: '0.0.0.0', token: 't' });
  });

  it('says why where it cannot listen', async () => {
    const { address } = await served();
    await expect(served({ port: Number(new URL(address).port) })).rejects.toThrow(
      /cannot listen at 127\.0\.0\.1:\d+: .*EADDRINUSE/,
    );
  });

  it('takes only names of this machine for loopback', () => {
    for (const host of ['localhost', '127.0.0.1', '127.1.2.3', '::1', '[::1]']) expect(isLoopback(host)).toBe(true);
    for (const host of ['0.0.0.0', '::', '10.0.0.1', 'localhost.evil', '127.0.0.1.evil', '1127.0.0.1', '']) {
      expect(isLoopback(host)).toBe(false);
    }
  });

  it('refuses any other name, whatever it is', () => {
    const url = new URL('http://page/data');
    fc.assert(
      fc.property(fc.domain(), fc.option(fc.nat(65535)), (name, port) => {
        const host = port === null ? name : `${name}:${port}`;
        expect(refusal({ headers: { host }, url }, { host: '127.0.0.1', token: undefined })?.status).toBe(403);
      }),
    );
  });
});

describe('the live report', () => {
  it('holds prompts and heat maps of a bounded number of steps, the first and the last ones too', async () => {
    const live = new LiveReport({ version: '1', settings: {}, command: '' });
    const [step] = steps as [StepReport];
    for (let n = 1; n <= 1000; n++) live.add({ ...step, step: n, record: { ...step.record, step: n } });
    const kept = Array.from({ length: 1000 }, (_, at) => at + 1).filter(
      (n) => live.matrix('collapse', n) !== undefined,
    );
    expect(kept.length).toBeLessThanOrEqual(200);
    expect(kept.length).toBeGreaterThan(100);
    expect(kept.slice(0, 5)).toEqual([1, 2, 3, 4, 5]);
    expect(kept.slice(-50)).toEqual(Array.from({ length: 50 }, (_, at) => 951 + at));
  });

  it('gives rollouts to be read of a bounded number of steps, and of a step that is new its own', async () => {
    const live = new LiveReport({ version: '1', settings: {}, command: '' });
    let step: StepReport | undefined;
    for await (step of analyze(exampleRollouts, { permutations: 0 })) break;
    if (step === undefined) throw new Error('no step');
    const first = step;
    const add = (n: number): void => void live.add({ ...first, step: n, record: { ...first.record, step: n } });
    for (let n = 1; n <= 400; n++) add(n);
    const all = decodeReport(gunzipSync(await live.payload('')));
    const kept = all.runs[0]?.texts.map(({ step: of }) => of) ?? [];
    expect(kept.length).toBeLessThanOrEqual(60);
    expect(kept.slice(0, 5)).toEqual([1, 2, 3, 4, 5]);
    expect(kept.at(-1)).toBe(400);
    add(401);
    const more = decodeReport(gunzipSync(await live.payload(all.head.cursor)));
    expect(more.runs[0]?.texts.map(({ step: of }) => of)).toEqual([401]);
    expect(more.runs[0]?.texts[0]?.rollouts.map(({ row, reasoning }) => [row, reasoning])).toEqual(
      first.excerpts?.rollouts.map(({ row, reasoning }) => [row, reasoning]),
    );
    expect(appended(all, more).runs[0]?.texts.length).toBeLessThanOrEqual(60);
  });

  it('gives all who ask for a cursor that is none the same bytes, made once', async () => {
    const live = new LiveReport({ version: '1', settings: {}, command: '' });
    for (const step of steps.slice(0, 2)) live.add(step);
    const { cursor } = decodeReport(gunzipSync(await live.payload(''))).head;
    const whole = live.payload('');
    const mark = cursor.slice(0, cursor.lastIndexOf(':'));
    for (const none of [
      'x',
      'x:1',
      ':2',
      mark,
      `${mark}:3`,
      `${mark}:02`,
      `${mark}:-1`,
      `${mark}:2.0`,
      `${mark}:NaN`,
    ]) {
      expect(live.payload(none), none).toBe(whole);
    }
    // However many have asked before.
    for (let at = 0; at < 200; at++) live.payload(`${mark}:${at}`);
    expect(live.payload('other')).toBe(whole);
    const [one] = decodeReport(gunzipSync(await live.payload(`${mark}:1`))).runs;
    expect(one?.steps).toHaveLength(1);
  });

  it('gives viewers who ask for the same the same bytes, made once', async () => {
    const live = new LiveReport({ version: '1', settings: {}, command: '' });
    live.add(steps[0] as StepReport);
    expect(live.payload('')).toBe(live.payload(''));
    const before = live.payload('');
    live.add(steps[1] as StepReport);
    expect(live.payload('')).not.toBe(before);
  });
});
