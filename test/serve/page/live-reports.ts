// Steps for the tests of the live page, and requests of a browser.
import { request } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { analyze } from '../../../src/analysis/analyze.js';
import { decodeReport } from '../../../src/report/payload/payload.js';
import type { Report } from '../../../src/report/report.js';
import type { StepReport } from '../../../src/step/step-report.js';
import { exampleRuns } from '../../support/analysis-logs.js';

export async function collapseSteps(): Promise<StepReport[]> {
  const reports: StepReport[] = [];
  for await (const report of analyze(`${exampleRuns}collapse`, { permutations: 19 })) reports.push(report);
  return reports;
}

export interface Answer {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  readonly body: Buffer;
}

/** fetch sets Host and Origin by itself; this sends what it is told. */
export function ask(
  address: string,
  path: string,
  headers: Record<string, string> = {},
  method = 'GET',
): Promise<Answer> {
  const { hostname, port } = new URL(address);
  return new Promise((resolve, reject) => {
    const asking = request({ hostname: hostname.replace(/^\[|\]$/g, ''), port, path, method, headers }, (response) => {
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      response.on('error', reject);
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(pieces) });
      });
    });
    asking.on('error', reject);
    asking.end();
  });
}

export async function dataAfter(address: string, cursor = ''): Promise<Report> {
  const { body } = await ask(address, `/data?after=${encodeURIComponent(cursor)}`);
  return decodeReport(gunzipSync(body));
}

/** Events of `/events` as they come. */
export function listening(address: string, lastId?: string): { ids: string[]; close(): void; opened: Promise<void> } {
  const { hostname, port } = new URL(address);
  const ids: string[] = [];
  const headers = lastId === undefined ? {} : { 'last-event-id': lastId };
  const asking = request({ hostname, port, path: '/events', headers });
  const opened = new Promise<void>((resolve, reject) => {
    asking.on('error', reject);
    asking.on('response', (response) => {
      response.on('error', () => undefined);
      let rest = '';
      response.on('data', (piece: Buffer) => {
        rest += piece.toString();
        const events = rest.split('\n\n');
        rest = events.pop() as string;
        for (const event of events) {
          const id = /^id: (.*)$/m.exec(event)?.[1];
          if (id !== undefined) ids.push(id);
        }
        resolve();
      });
    });
  });
  asking.end();
  return { ids, close: () => asking.destroy(), opened };
}
