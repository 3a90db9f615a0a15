// Sinks that speak HTTP: what they ask of a server that answers as Trackio's and MLflow's handlers do.
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { openSink } from '../../src/sinks/open-sink.js';
import { MlflowSink, mlflowName } from '../../src/sinks/servers/mlflow-sink.js';
import { TrackioSink } from '../../src/sinks/servers/trackio-sink.js';
import type { StepReport } from '../../src/step/step-report.js';
import { closeServers, mlflow, serve } from './recording-servers.js';
import { collapseReports, giveAll, MI, reportWith } from './sink-reports.js';

vi.setConfig({ testTimeout: 30_000, hookTimeout: 120_000 });

afterEach(closeServers);

let reports: StepReport[];
beforeAll(async () => {
  reports = await collapseReports();
});

describe.each([
  ['TrackioSink', (url: string) => new TrackioSink(`${url}/?project=p`, 'page', 'secret')],
  ['MlflowSink', (url: string) => new MlflowSink(`${url}?experiment=e`, 'page')],
] as const)('%s', (_, open) => {
  it.each([301, 302, 307, 308])('follows no redirect, with its token, of status %i', async (status) => {
    const other = await serve(() => [200, {}]);
    const { url, asked } = await serve(() => [status, {}], { location: `${other.url}/api` });
    await expect(giveAll(open(url), reports)).rejects.toThrow(`a redirect to ${other.url}/api, which is not followed`);
    expect(asked.length).toBeGreaterThan(0);
    expect(other.asked).toEqual([]);
  });

  it.each([3, 'words', null])('refuses in words an answer of %j', async (answer) => {
    const { url } = await serve(() => [200, answer]);
    await expect(giveAll(open(url), reports)).rejects.toThrow('answers JSON that is no object');
  });
});

describe('TrackioSink', () => {
  it('logs every step, and alerts every new verdict once, at its level', async () => {
    const { url, asked } = await serve(() => [200, {}]);
    await giveAll(new TrackioSink(`${url}/?project=p`, 'page', 'secret'), reports);
    const logs = asked.filter(({ path }) => path === '/api/bulk_log').map(({ body }) => (body.logs as object[])[0]);
    expect(logs).toHaveLength(reports.length);
    expect(logs[0]).toMatchObject({ project: 'p', run: 'collapse', step: reports[0]?.step });
    expect((logs[0] as { metrics: Record<string, number> }).metrics[MI]).toBe(reports[0]?.metrics[MI]);
    for (const { headers, body } of asked) {
      expect(headers['x-trackio-write-token']).toBe('secret');
      expect(body.hf_token).toBeNull();
    }
    const alerts = asked.filter(({ path }) => path === '/api/bulk_alert').flatMap(({ body }) => body.alerts as Alert[]);
    const critical = alerts.filter(({ level }) => level === 'error');
    expect(critical).toHaveLength(1);
    expect(critical[0]).toMatchObject({ title: 'template collapse', run: 'collapse', project: 'p' });
    expect(new Set(alerts.map(({ alert_id }) => alert_id)).size).toBe(alerts.length);
    for (const { level } of alerts) expect(['info', 'warn', 'error']).toContain(level);
  });

  it('gives the same ids for the same steps, and another where a step has other figures', async () => {
    const { url, asked } = await serve(() => [200, {}]);
    const at = (value: number): StepReport =>
      reportWith({ run: 'r', step: 1, metrics: { [MI]: value, 'text/mi_bound': Number.NaN } });
    for (const value of [1, 1, 2]) await giveAll(new TrackioSink(url), [at(value)]);
    const logs = asked.map(({ body }) => (body.logs as { log_id: string; metrics: object }[])[0]);
    expect(logs[0]?.log_id).toBe(logs[1]?.log_id);
    expect(logs[0]?.log_id).not.toBe(logs[2]?.log_id);
    expect(logs[0]?.metrics).toEqual({ [MI]: 1 });
  });

  it('asks again where the server is busy, and not where it refuses', async () => {
    let busy = 2;
    const { url, asked } = await serve(() => (busy-- > 0 ? [503, {}] : [200, {}]));
    await new TrackioSink(url).step(reportWith({ run: 'r', step: 1, metrics: { [MI]: 1 } }));
    expect(asked).toHaveLength(3);
    const refusing = await serve(() => [401, { error: 'no token' }]);
    const step = new TrackioSink(refusing.url).step(reportWith({ run: 'r', step: 1, metrics: { [MI]: 1 } }));
    await expect(step).rejects.toThrow(/answers 401: .*no token/);
    expect(refusing.asked).toHaveLength(1);
  });

  it('says which server does not answer, after three times', async () => {
    const { url } = await serve(() => [200, {}]);
    await closeServers();
    const step = new TrackioSink(url).step(reportWith({ run: 'r', step: 1, metrics: { [MI]: 1 } }));
    await expect(step).rejects.toThrow(/does not answer: .*ECONNREFUSED.* \(asked 3 times\)/);
  });
});

interface Alert {
  readonly level: string;
  readonly alert_id: string;
}

describe('MlflowSink', () => {
  it('makes a run, logs each step with names that MLflow takes, and finishes it', async () => {
    const store = mlflow();
    const { url } = await serve(store.answer);
    await giveAll(new MlflowSink(`${url}?experiment=it's`, 'all'), reports);
    expect([...store.experiments.keys()]).toEqual(["it\\'s".replace('\\', '')]);
    const [run] = [...store.runs.values()];
    expect(run?.name).toBe('collapse');
    expect(run?.status).toBe('FINISHED');
    expect(run?.metrics.filter(({ key }) => key === MI).map(({ step, value }) => [step, value])).toEqual(
      reports.map(({ step, metrics }) => [step, metrics[MI]]),
    );
    expect(run?.metrics.some(({ key }) => key === 'collapse_first_turn_sample/retrieval_accuracy_at_2')).toBe(true);
    expect(run?.tags.get('collapsar.template_collapse')).toMatch(/^critical, step \d+: /);
  });

  it('goes on with a run of an earlier process, and logs no step twice', async () => {
    const store = mlflow();
    const { url } = await serve(store.answer);
    await giveAll(new MlflowSink(url), reports.slice(0, 3));
    await giveAll(new MlflowSink(url), reports.slice(0, 5));
    expect(store.runs.size).toBe(1);
    const [run] = [...store.runs.values()];
    const steps = run?.metrics.filter(({ key }) => key === MI).map(({ step }) => step);
    expect(steps).toEqual(reports.slice(0, 5).map(({ step }) => step));
    expect(run?.status).toBe('FINISHED');
  });

  it('cuts what is too much for one request', async () => {
    const store = mlflow();
    const { url, asked } = await serve(store.answer);
    const metrics = Object.fromEntries(Array.from({ length: 2500 }, (_, at) => [`m@${at}`, at]));
    await new MlflowSink(url, 'all').step(reportWith({ run: 'r', step: 1, metrics }));
    expect(asked.filter(({ path }) => path.endsWith('log-batch'))).toHaveLength(3);
    expect([...store.runs.values()][0]?.metrics).toHaveLength(2500);
    expect(mlflowName('a@2: ü')).toBe('a_at_2_ _');
  });
});

describe('openSink', () => {
  it('refuses what is no address of a server, and passwords in one', () => {
    for (const where of ['here', 'ftp://h', 'http://user:secret@h']) {
      expect(() => openSink(`trackio:${where}`)).toThrow(/expected http:\/\/host:port/);
    }
  });
});
