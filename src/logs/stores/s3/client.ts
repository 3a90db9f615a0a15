// Loads the client of S3-compatible stores at the first s3:// path: @aws-sdk/client-s3, an optional peer dependency.
// Endpoint, region and credentials are those of the AWS tools: environment, shared configuration, instance roles.
import type * as Sdk from '@aws-sdk/client-s3';
import { FileError } from '../../../checks/errors.js';
import { systemProblem } from '../system-problem.js';

export interface S3Place {
  readonly bucket: string;
  /** Empty for the bucket itself. */
  readonly key: string;
}

export interface S3 {
  readonly sdk: typeof Sdk;
  readonly client: Sdk.S3Client;
}

/** Requests at a time, of all files together: enough to fill a fast network in ranges of 8 MiB. */
export const MAX_REQUESTS = 32;

/** @throws FileError unless it is s3://bucket or s3://bucket/key */
export function parseS3(path: string): S3Place {
  const [, bucket, key = ''] = /^s3:\/\/([^/?#]+)(?:\/(.*))?$/s.exec(path) ?? [];
  if (bucket === undefined) throw new FileError({ path }, 'expected s3://bucket/prefix');
  return { bucket, key };
}

let opened: { settings: string; s3: Promise<S3> } | undefined;

/**
 * One client for the process: it keeps connections open between requests, none of which keeps the process alive.
 * @throws FileError that says what to install
 */
export function openS3(path: string): Promise<S3> {
  // Another environment, another client: who changes it means it.
  const settings = JSON.stringify(
    Object.entries(process.env)
      .filter(([name]) => name.startsWith('AWS_'))
      .sort(),
  );
  if (opened?.settings !== settings) {
    opened?.s3.then(({ client }) => client.destroy()).catch(() => undefined);
    opened = { settings, s3: createS3(path) };
    // A failure is not kept: before the next call the missing package may have been installed.
    opened.s3.catch(() => {
      opened = undefined;
    });
  }
  return opened.s3;
}

async function createS3(path: string): Promise<S3> {
  let sdk: typeof Sdk;
  try {
    sdk = await import('@aws-sdk/client-s3');
  } catch (error) {
    const problem = `s3:// paths are read with the package @aws-sdk/client-s3, which cannot be loaded: npm install @aws-sdk/client-s3 (${firstLine(error)})`;
    throw new FileError({ path }, problem, { cause: error });
  }
  const { AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION } = process.env;
  const endpoint = AWS_ENDPOINT_URL_S3 || AWS_ENDPOINT_URL;
  // A store of one's own has one region, by any name.
  const region = AWS_REGION || AWS_DEFAULT_REGION || (endpoint ? 'us-east-1' : undefined);
  const agent = { keepAlive: true, maxSockets: MAX_REQUESTS };
  const client = new sdk.S3Client({
    ...(region && { region }),
    // Buckets as part of the host name need a DNS that knows them.
    ...(endpoint && { endpoint, forcePathStyle: true }),
    followRegionRedirects: true,
    maxAttempts: 5,
    // Ranges have no checksum of their own, and not every store knows the newer ones.
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: 10_000, httpAgent: agent, httpsAgent: agent },
  });
  return { sdk, client };
}

/** What to say if an answer is of another object than the one before. */
export const REPLACED = 'the object was replaced while it was read: analyse it again when it is complete';

/** One sentence for an error of the client, with what to do. */
export function s3Problem(error: unknown): string {
  const name = error instanceof Error ? error.name : '';
  const status = (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode;
  if (name === 'NoSuchBucket') return 'there is no such bucket: check its name and AWS_ENDPOINT_URL';
  if (isMissing(error)) return 'there is no such object: check the path';
  if (name === 'CredentialsProviderError') {
    return 'no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE';
  }
  if (status === 403 || name === 'AccessDenied') {
    return `access denied (${name}): these credentials need s3:GetObject and s3:ListBucket on the bucket`;
  }
  if (/region is missing/i.test(firstLine(error))) return 'no region: set AWS_REGION';
  if (status === 412) return REPLACED;
  if (status === 301 || name === 'PermanentRedirect') return 'the bucket is in another region: set AWS_REGION to it';
  const code = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : '';
  if (/^(ECONN|ENOTFOUND|EAI_|EHOST|ENET|ETIMEDOUT|EPIPE)/.test(code.slice(2)) || name === 'TimeoutError') {
    return `the store cannot be reached${code}: check AWS_ENDPOINT_URL and the network`;
  }
  if (status === undefined) return systemProblem(error);
  const answer = `the store answered ${status} ${name.slice(0, MOST_SAID)}: ${firstLine(error)}`;
  return status >= 500 || status === 429 ? `${answer}; it is busy or failing: try again later` : answer;
}

/** What a store says that is not about the object. */
const STORE_FAULTS: ReadonlySet<string> = new Set([
  'AccessDenied',
  'CredentialsProviderError',
  'ExpiredToken',
  'InvalidAccessKeyId',
  'InvalidToken',
  'NoSuchBucket',
  'PermanentRedirect',
  'SlowDown',
  'TimeoutError',
]);

const FAULT_STATUSES: ReadonlySet<number> = new Set([301, 307, 401, 403, 408, 429]);

/**
 * Whether an error of the client says nothing of the object: no answer came, or one about the store, the bucket or the
 * rights.
 */
export function isStoreFault(error: Error): boolean {
  if (STORE_FAULTS.has(error.name) || /region is missing/i.test(error.message)) return true;
  const { $metadata: answer } = error as { $metadata?: { httpStatusCode?: number } };
  if (answer === undefined) return false;
  const status = answer.httpStatusCode;
  return status === undefined || status >= 500 || FAULT_STATUSES.has(status);
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && (error.name === 'NoSuchKey' || error.name === 'NotFound');
}

/** Answers of a store may be long: they go into messages, failures.jsonl and states. */
const MOST_SAID = 500;

function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const line = text.slice(0, MOST_SAID + 1).split('\n', 1)[0] ?? '';
  return line.length > MOST_SAID ? `${line.slice(0, MOST_SAID)}…` : line;
}
