// Folders of a benchmark's own data, gigabytes at times: they go when it ends, by Ctrl-C, too.
import { mkdtempSync, rmSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';

const folders = new Set();

/** A new folder in `parent`. */
export function temporaryFolder(parent, prefix) {
  const folder = mkdtempSync(join(parent, prefix));
  if (folders.size === 0) {
    process.once('exit', removeAll);
    // A signal ends a process without its `exit`. SIGHUP is left alone, for nohup.
    for (const signal of ['SIGINT', 'SIGTERM'])
      process.once(signal, () => process.exit(128 + constants.signals[signal]));
  }
  folders.add(folder);
  return folder;
}

function removeAll() {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}
