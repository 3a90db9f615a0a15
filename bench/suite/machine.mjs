// Where and with what a run was made.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, platform, release, totalmem } from 'node:os';
import { lastLevelCache } from './cases.mjs';

const json = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'));

/** The commit that is checked out, with `+` if files differ from it. */
function commit() {
  const git = (...args) => spawnSync('git', args, { cwd: new URL('../..', import.meta.url), encoding: 'utf8' });
  const head = git('rev-parse', '--short', 'HEAD');
  if (head.status !== 0) return 'unknown';
  const changes = git('status', '--porcelain', '--untracked-files=no').stdout.trim();
  return head.stdout.trim() + (changes === '' ? '' : '+');
}

export function describeMachine() {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown processor',
    threads: availableParallelism(),
    memoryBytes: totalmem(),
    lastLevelCacheBytes: lastLevelCache(),
    system: `${platform()} ${release()} ${process.arch}`,
  };
}

export function describeVersions() {
  return {
    collapsar: json('../../package.json').version,
    commit: commit(),
    node: process.versions.node,
    tinybench: json('../../node_modules/tinybench/package.json').version,
  };
}

/** Runnable processes over the last minute, per hardware thread: near 0 on an idle machine. Windows says 0. */
export const load = () => loadavg()[0] / availableParallelism();

/** A processor's name as part of a file name. */
export const slug = (cpu) =>
  cpu
    .toLowerCase()
    .replace(/\((r|tm)\)/g, '')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
