// Whether a process that a file names still runs: by its id, its start and the world of ids that it is of.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { looksAlive, thisProcess } from '../../src/analysis/results/running-process.js';

const onLinux = it.skipIf(process.platform !== 'linux');
const here = thisProcess();

it('this one runs, and one of another machine cannot be looked up', () => {
  expect(here.pid).toBe(process.pid);
  expect(looksAlive(here)).toBe(true);
  expect(looksAlive({ ...here, world: 'elsewhere.1' })).toBeUndefined();
  // Of a name that a place gives to others, too, the world decides.
  expect(looksAlive({ ...here, host: 'node-7' })).toBe(here.world === '' ? undefined : true);
});

it('one that has ended is gone', () => {
  const { pid } = spawnSync('true');
  expect(looksAlive({ ...here, pid })).toBe(false);
});

onLinux('of two with one id the start tells which it is; where it is not known the id must do', () => {
  expect(here.started).toMatch(/^[0-9]+$/);
  expect(looksAlive({ ...here, started: '1' })).toBe(false);
  expect(looksAlive({ ...here, started: '' })).toBe(true);
});

onLinux('one that is another user’s runs', () => {
  // The first one of all: nobody but the superuser may signal it.
  expect(looksAlive({ ...here, pid: 1, started: '' })).toBe(true);
});

onLinux('one whose parent has not asked for its end has ended all the same', async () => {
  // The last program takes the shell's place, and knows of no child.
  const parent = spawn('sh', ['-c', 'sleep 0.3 & echo $!; exec sleep 60'], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [line] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(line.toString());
    const started = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[19] as string;
    expect(looksAlive({ ...here, pid, started })).toBe(true);
    await expect.poll(() => looksAlive({ ...here, pid, started }), { timeout: 20_000 }).toBe(false);
    expect(existsSync(`/proc/${pid}`)).toBe(true);
  } finally {
    parent.kill('SIGKILL');
  }
});
