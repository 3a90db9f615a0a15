// `collapsar build`: scripts/build-addon.mjs, which compiles the addon in the package's own folder.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { packageRoot } from '../../checks/package-root.js';
import { EXIT } from '../output/exit-codes.js';
import type { Streams } from '../output/streams.js';

/** @param done takes the exit status */
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  command
    .addOption(new Option('--cuda <when>', 'the CUDA backend, too').choices(['on', 'off', 'auto']))
    .addOption(new Option('--with <tool>', 'what to compile with').choices(['cmake', 'gyp']))
    .action(async (flags: BuildFlags) => done(await buildCommand(flags, streams)));
}

export interface BuildFlags {
  cuda?: 'on' | 'off' | 'auto';
  with?: 'cmake' | 'gyp';
}

/** @returns exit status: 0 when there is an addon that loads */
export async function buildCommand(
  { cuda, with: tool }: BuildFlags,
  { out, err, environment, signal }: Streams,
): Promise<number> {
  const script = join(packageRoot, 'scripts', 'build-addon.mjs');
  if (!existsSync(script)) {
    // Python's wheel.
    await err.write(
      `error: there are no sources at ${packageRoot} to compile: install a package that was made for this platform, or ` +
        'make one in the clone (npm ci && npm run python)\n',
    );
    return EXIT.failures;
  }
  const child = spawn(process.execPath, [script], {
    env: {
      ...environment,
      ...(cuda !== undefined && { COLLAPSAR_CUDA: cuda }),
      ...(tool !== undefined && { COLLAPSAR_BUILD: tool }),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const end = (): boolean => child.kill();
  signal.addEventListener('abort', end, { once: true });
  const ended = once(child, 'close');
  for await (const text of child.stdout.setEncoding('utf8')) await out.write(text);
  const [status] = await ended;
  signal.removeEventListener('abort', end);
  signal.throwIfAborted();
  return status === 0 ? EXIT.ok : EXIT.failures;
}
