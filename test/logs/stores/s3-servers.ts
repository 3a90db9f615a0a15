// S3 servers for the tests of s3:// paths: s3rver (npm) in a process of its own, moto's (pip) where it is installed,
// and a proxy in front of one that breaks answers on demand.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import http from 'node:http';
import { createRequire } from 'node:module';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface S3Server {
  readonly endpoint: string;
  stop(): Promise<void>;
}

export interface ServerKind {
  readonly name: string;
  readonly there: boolean;
  readonly key: string;
  start(directory: string): Promise<S3Server>;
}

const require = createRequire(import.meta.url);

export const SERVERS: readonly ServerKind[] = [
  { name: 's3rver', there: canResolve('@20minutes/s3rver'), key: 'S3RVER', start: startS3rver },
  { name: 'moto_server', there: spawnSync('moto_server', ['--help']).status === 0, key: 'moto', start: startMoto },
];

function canResolve(name: string): boolean {
  try {
    require.resolve(name);
    return true;
  } catch {
    return false;
  }
}

const S3RVER = `
const S3rver = require(process.argv[1]);
new S3rver({ port: Number(process.argv[2]), address: '127.0.0.1', silent: true, directory: process.argv[3],
  // It signs the path of a bucket without its slash, unlike the client.
  allowMismatchedSignatures: true }).run();
`;

// Its continuation tokens are encrypted with DES, which OpenSSL 3 has put aside.
async function startS3rver(directory: string): Promise<S3Server> {
  const port = await freePort();
  return started(
    spawn(process.execPath, [
      '--openssl-legacy-provider',
      '-e',
      S3RVER,
      require.resolve('@20minutes/s3rver'),
      `${port}`,
      directory,
    ]),
    port,
  );
}

async function startMoto(): Promise<S3Server> {
  const port = await freePort();
  return started(spawn('moto_server', ['-H', '127.0.0.1', '-p', `${port}`], { stdio: 'ignore' }), port);
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function started(child: ChildProcess, port: number): Promise<S3Server> {
  const endpoint = `http://127.0.0.1:${port}`;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  for (let tries = 0; ; tries++) {
    try {
      await (await fetch(endpoint)).arrayBuffer();
      break;
    } catch (error) {
      if (tries > 300 || child.exitCode !== null) throw error;
      await sleep(100);
    }
  }
  const stop = async () => {
    child.kill();
    await ended;
  };
  return { endpoint, stop };
}

/**
 * What the proxy does to an answer to a GET of an object: cut it after so many bytes, let it stand there, or answer 503
 * or 403.
 */
export type Fault = { cutAfter: number } | { stallAfter: number } | 'unavailable' | 'forbidden' | undefined;

export interface FaultyProxy extends S3Server {
  /** Called for each GET of an object, with its range and path. */
  fault: (range: string, request: number, path: string) => Fault;
  /** Requests that came. */
  requests: string[];
}

/** Passes requests on to `endpoint`, under its host name, so that signatures stay right. */
export async function startFaultyProxy(endpoint: string): Promise<FaultyProxy> {
  const { port } = new URL(endpoint);
  let objects = 0;
  const proxy: FaultyProxy = { endpoint: '', fault: () => undefined, requests: [], stop: async () => undefined };
  const server = http.createServer((request, response) => {
    const { range } = request.headers;
    proxy.requests.push(`${request.method} ${request.url} ${range ?? ''}`);
    const fault = range === undefined ? undefined : proxy.fault(range, objects++, request.url ?? '');
    if (fault === 'unavailable') {
      response.writeHead(503, { 'content-type': 'application/xml' });
      response.end('<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>');
      return;
    }
    if (fault === 'forbidden') {
      response.writeHead(403, { 'content-type': 'application/xml' });
      response.end('<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>');
      return;
    }
    const { method, url, headers } = request;
    const onward = http.request({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      if (fault === undefined) {
        answer.pipe(response);
        return;
      }
      const limit = 'cutAfter' in fault ? fault.cutAfter : fault.stallAfter;
      let sent = 0;
      answer.on('data', (chunk: Buffer) => {
        if (sent >= limit) return;
        const piece = chunk.subarray(0, limit - sent);
        sent += piece.length;
        response.write(piece);
        if (sent >= limit && 'cutAfter' in fault) response.socket?.destroySoon();
      });
    });
    onward.on('error', () => response.destroy());
    request.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address() as AddressInfo;
  return Object.assign(proxy, {
    endpoint: `http://127.0.0.1:${address.port}`,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}
