// Servers that record what sinks ask of them, and answer as Trackio's and MLflow's handlers do.
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One request, as the server had it. */
export interface Asked {
  readonly path: string;
  readonly body: Record<string, unknown>;
  readonly headers: IncomingMessage['headers'];
}

const servers: Server[] = [];
export async function closeServers(): Promise<void> {
  for (const server of servers.splice(0)) {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }
}

/** @param answer to each request: a status and an object */
export async function serve(
  answer: (asked: Asked) => readonly [number, unknown],
  more: Readonly<Record<string, string>> = {},
): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const body = JSON.parse(Buffer.concat(pieces).toString()) as Record<string, unknown>;
    const one = { path: request.url as string, body, headers: request.headers };
    asked.push(one);
    const [status, object] = answer(one);
    response.writeHead(status, { 'content-type': 'application/json', ...more }).end(JSON.stringify(object));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

/** As much of MLflow's store as these requests see, with its rules for names, sizes and numbers. */
export function mlflow() {
  const experiments = new Map<string, string>();
  const runs = new Map<string, { status: string; tags: Map<string, string>; metrics: Metric[]; name: string }>();
  const answer = ({ path, body }: Asked): [number, unknown] => {
    const refuse = (message: string): [number, unknown] => [400, { error_code: 'INVALID_PARAMETER_VALUE', message }];
    const run = runs.get(body.run_id as string);
    switch (path.replace('/api/2.0/mlflow/', '')) {
      case 'experiments/search': {
        const name = /^name = '(.*)'$/.exec(body.filter as string)?.[1] ?? '';
        const id = experiments.get(name);
        return [200, id === undefined ? {} : { experiments: [{ experiment_id: id }] }];
      }
      case 'experiments/create':
        experiments.set(body.name as string, String(experiments.size + 1));
        return [200, { experiment_id: String(experiments.size) }];
      case 'runs/search': {
        const [, key, value] = /^tags\."([^"]+)" = '([^']+)'$/.exec(body.filter as string) ?? [];
        const found = [...runs].filter(([, { tags }]) => tags.get(key as string) === value);
        const told = found.map(([id, { tags }]) => {
          return { info: { run_id: id }, data: { tags: [...tags].map(([key, value]) => ({ key, value })) } };
        });
        return [200, { runs: told }];
      }
      case 'runs/create': {
        const id = `run${runs.size}`;
        const tags = new Map((body.tags as { key: string; value: string }[]).map(({ key, value }) => [key, value]));
        runs.set(id, { status: 'RUNNING', tags, metrics: [], name: body.run_name as string });
        return [200, { run: { info: { run_id: id } } }];
      }
      case 'runs/log-batch': {
        const metrics = body.metrics as Metric[];
        if (run === undefined) return refuse('no run');
        if (metrics.length > 1000) return refuse('too many metrics');
        const bad = metrics.find(({ key, value }) => !/^[\w.\- /]+$/.test(key) || typeof value !== 'number');
        if (bad !== undefined) return refuse(`bad metric ${bad.key}`);
        run.metrics.push(...metrics);
        for (const { key, value } of body.tags as { key: string; value: string }[]) run.tags.set(key, value);
        return [200, {}];
      }
      case 'runs/update':
        if (run === undefined) return refuse('no run');
        run.status = body.status as string;
        return [200, {}];
      default:
        return [404, { error_code: 'ENDPOINT_NOT_FOUND' }];
    }
  };
  return { answer, runs, experiments };
}

export interface Metric {
  readonly key: string;
  readonly value: number;
  readonly step: number;
  readonly timestamp: number;
}
