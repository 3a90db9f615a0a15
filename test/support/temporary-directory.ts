// An empty directory for the tests of one file, which goes when they are through.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'collapsar-test-'));
  // Open to the user that unprivileged.ts steps down to.
  chmodSync(directory, 0o755);
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
