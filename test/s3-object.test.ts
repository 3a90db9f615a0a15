// An object of a store that changes between two answers: it is refused, and nothing is read that the store did not send.
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { openObject } from '../src/logs/s3/object.js';

let answer: RequestListener;
const server = createServer((request, response) => answer(request, response));

beforeEach(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  vi.stubEnv('AWS_ENDPOINT_URL', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  vi.stubEnv('AWS_ENDPOINT_URL_S3', '');
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'none');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'none');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const EMPTY = '<Error><Code>InvalidRange</Code><Message>The requested range is not satisfiable</Message></Error>';

it('that is written after it was found to be empty is told of', async () => {
  answer = ({ method }, response) => {
    if (method === 'HEAD') response.writeHead(200, { 'content-length': 8, etag: '"new"' }).end();
    else response.writeHead(416, { 'content-type': 'application/xml' }).end(EMPTY);
  };
  await expect(openObject('s3://bucket/step.safetensors')).rejects.toThrow(
    's3://bucket/step.safetensors: the object was replaced while it was read',
  );
});

it('that is empty is read as such', async () => {
  answer = ({ method }, response) => {
    if (method === 'HEAD') response.writeHead(200, { 'content-length': 0, etag: '"empty"' }).end();
    else response.writeHead(416, { 'content-type': 'application/xml' }).end(EMPTY);
  };
  const { bytes, revision } = await openObject('s3://bucket/step.safetensors');
  expect({ bytes, revision }).toEqual({ bytes: 0, revision: '0-"empty"' });
});
