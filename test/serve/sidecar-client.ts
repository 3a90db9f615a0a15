// A client of the sidecar for tests: the command as a process, one question after the other or many at once.
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { builtCommand } from '../support/built-command.js';

export type Json = Record<string, unknown>;

export interface Sidecar {
  readonly child: ChildProcessWithoutNullStreams;
  /** Every line of stdout as it came. */
  readonly lines: string[];
  readonly errors: () => string;
  ask(op: string, fields?: Json): Promise<Json>;
  send(text: string): void;
  /** The next line that answers nothing that was asked. */
  stray(): Promise<Json>;
  ended: Promise<{ code: number | null; signal: string | null }>;
}

export function startSidecar(args: readonly string[] = []): Sidecar {
  const child = spawn(process.execPath, [builtCommand, 'monitor', '--threads', '1', ...args], {
    // Addresses of pages have no token, whoever else uses this machine.
    env: { ...process.env, COLLAPSAR_TOKEN: '' },
  });
  const lines: string[] = [];
  const waiting = new Map<unknown, (answer: Json) => void>();
  const strays: Json[] = [];
  const wanting: ((answer: Json) => void)[] = [];
  let err = '';
  let last = 0;
  child.stderr.on('data', (chunk) => {
    err += chunk;
  });
  child.stdin.on('error', () => undefined);
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line);
    const answer = JSON.parse(line) as Json;
    const resolve = waiting.get(answer.id);
    waiting.delete(answer.id);
    if (resolve !== undefined) resolve(answer);
    else if (wanting.length > 0) wanting.shift()?.(answer);
    else strays.push(answer);
  });
  const ended = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal }));
  });
  return {
    child,
    lines,
    errors: () => err,
    ended,
    send: (text) => void child.stdin.write(text),
    ask(op, fields = {}) {
      const id = ++last;
      child.stdin.write(`${JSON.stringify({ id, op, ...fields })}\n`);
      return Promise.race([
        new Promise<Json>((resolve) => waiting.set(id, resolve)),
        ended.then(({ code, signal }) => Promise.reject(new Error(`ended with ${code ?? signal}: ${err}`))),
      ]);
    },
    stray: () =>
      new Promise((resolve) => {
        const first = strays.shift();
        if (first !== undefined) resolve(first);
        else wanting.push(resolve);
      }),
  };
}
