// What the tests of the engines have in common: a run to analyse, the results that one process gives, and the checks
// that every engine must pass. An engine brings `options` of submit and `loseNode()`, which ends a node that is in the
// middle of a shard.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { check, root, start } from './stage.mjs';

const main = join(root, 'dist', 'cli', 'main.js');
const run = join(root, 'examples', 'data', 'collapse');
/** An analysis, and into how many shards it is cut. */
const BRIEF = { name: 'brief', permutations: 999, shards: 6, paths: [run] };
/** A shard takes some seconds: long enough for its node to die meanwhile. */
const LONG = { name: 'long', permutations: 2_000_000, shards: 4, paths: [join(run, 'step_000[01]*.safetensors')] };
/** Beside it the start of tasks takes no time. */
const LONGER = { name: 'longer', permutations: 500_000, shards: 6, paths: [run] };

const words = (word) => `'${word.replaceAll("'", "'\\''")}'`;

/** @param work an empty directory that all nodes see */
export class ClusterChecks {
  constructor(work, options, env = {}) {
    // The shell must not see what is in names.
    this.work = join(work, `a b'c"d%j$e`);
    this.options = options;
    this.env = env;
    this.began = performance.now();
    mkdirSync(this.work, { recursive: true });
  }

  say(text) {
    console.log(`${((performance.now() - this.began) / 1000).toFixed(0).padStart(4)} s  ${text}`);
  }

  collapsar(...args) {
    return start(process.execPath, [main, ...args], { env: this.env, quiet: true });
  }

  submit(name, ...args) {
    const places = [`--work=${join(this.work, name, 'work')}`, `--out=${join(this.work, name, 'out')}`];
    return this.collapsar('submit', ...this.options, ...places, '--shard-wait=0', '--retries=3', ...args);
  }

  #first(analysis, name, ...args) {
    const { permutations, shards, paths } = analysis;
    return this.submit(name, `--permutations=${permutations}`, `--shards=${shards}`, ...args, '--', ...paths);
  }

  /** Submits an analysis whose shards take some seconds. */
  submitLong(name, ...args) {
    return this.#first(LONG, name, '--threads=1', ...args);
  }

  directory(name, ...below) {
    return join(this.work, name, 'work', ...below);
  }

  /** Of an analysis whose shards take some seconds. */
  isComplete(name, shard) {
    return existsSync(this.directory(name, 'journals', `${shard}-of-${LONG.shards}`));
  }

  async #reference({ name, permutations, paths }) {
    const out = join(this.work, 'one process', name);
    if (existsSync(out)) return out;
    const measuring = [`--permutations=${permutations}`, `--out=${out}`, '--quiet'];
    const { status, output } = await this.collapsar('analyze', ...measuring, ...paths);
    check(status === 0, `analyze failed:\n${output}`);
    return out;
  }

  /** Those of analyze, byte for byte. */
  checkLong(name) {
    return this.#checkResults(LONG, name);
  }

  async #checkResults(analysis, name) {
    const expected = await this.#reference(analysis);
    const found = join(this.work, name, 'out');
    const files = readdirSync(expected).sort();
    check(String(readdirSync(found).sort()) === String(files), `${name}: the files are not those of analyze`);
    for (const file of files) {
      const isSame = readFileSync(join(expected, file)).equals(readFileSync(join(found, file)));
      check(isSame, `${name}: ${file} is not that of analyze`);
    }
  }

  async allComplete() {
    const { status, output } = await this.#first(BRIEF, 'complete', '--wait');
    check(status === 0, `all complete: submit --wait ended with ${status}:\n${output}`);
    check(output.includes('6 submitted'), `all complete: not all were submitted:\n${output}`);
    await this.#checkResults(BRIEF, 'complete');
    this.say('all shards on two nodes: the bytes of analyze');
  }

  /** A shard whose task is killed every time, until what kills it is gone. */
  async partialFailure() {
    const broken = join(this.work, 'broken');
    const program = join(this.work, 'collapsar.sh');
    const command = `#!/bin/sh
if [ "$1 $2 $3" = 'analyze --shard 2/6' ] && [ -e ${words(broken)} ]; then kill -9 $$; fi
exec ${words(process.execPath)} ${words(main)} "$@"
`;
    writeFileSync(program, command);
    chmodSync(program, 0o755);
    writeFileSync(broken, '');
    const by = `--collapsar=${words(program)}`;
    const failed = await this.#first(BRIEF, 'partial', by, '--wait');
    check(failed.status === 1, `a shard failed, but submit --wait ended with ${failed.status}:\n${failed.output}`);
    check(failed.output.includes('1 of 6 shards are not complete: 2\n'), `the shard is not named:\n${failed.output}`);
    const complete = readdirSync(this.directory('partial', 'journals')).filter((name) => !name.startsWith('.'));
    check(complete.length === 5, `${complete.length} shards are complete, 5 should be`);
    const before = this.#times('partial');
    rmSync(broken);
    const again = await this.submit('partial', by, '--wait');
    check(again.status === 0, `the second submission ended with ${again.status}:\n${again.output}`);
    check(again.output.includes('5 complete, 0 under way, 1 submitted'), `not one shard alone:\n${again.output}`);
    const after = this.#times('partial').filter(([name]) => name !== '2-of-6');
    check(String(after) === String(before), 'shards that were complete were written again');
    await this.#checkResults(BRIEF, 'partial');
    this.say('one shard failed, and was submitted again alone: the bytes of analyze');
  }

  #times(name) {
    const folder = this.directory(name, 'journals');
    const files = readdirSync(folder).sort();
    return files.map((file) => [file, statSync(join(folder, file)).mtimeMs]);
  }

  /** @param loseNode ends a node while a shard is being measured on it, and gives the shard */
  async lostNode(loseNode) {
    const name = 'lost';
    const { status, output } = await this.submitLong(name);
    check(status === 0, `lost node: submit ended with ${status}:\n${output}`);
    const shard = await loseNode(name);
    check(!this.isComplete(name, shard), `shard ${shard} was complete before its node died: no test`);
    this.say(`a node died in the middle of shard ${shard}`);
    const end = await this.submit(name, '--wait');
    check(end.output.includes('nothing to submit'), `the first submission is not followed:\n${end.output}`);
    check(end.status === 0, `after a node was lost, submit --wait ended with ${end.status}:\n${end.output}`);
    await this.checkLong(name);
    this.say('its shard was measured on another node: the bytes of analyze');
  }

  /** Throughput of two workers against one, a thread each. */
  async throughput() {
    const seconds = [];
    for (const workers of [1, 2]) {
      const name = `workers-${workers}`;
      const submitted = await this.#first(LONGER, name, `--throttle=${workers}`, '--threads=1', '--cpus=1', '--wait');
      check(submitted.status === 0, `${name} ended with ${submitted.status}:\n${submitted.output}`);
      await this.#checkResults(LONGER, name);
      // From the first task's start, which its script notes, to the last journal: not how long the queue thinks.
      const folder = this.directory(name, 'submissions', '001', 'logs');
      const times = readdirSync(folder)
        .filter((file) => file.startsWith('shard-'))
        .map((file) => statSync(join(folder, file)).birthtimeMs);
      const ends = Array.from(
        { length: LONGER.shards },
        (_, i) => statSync(this.directory(name, 'journals', `${i}-of-${LONGER.shards}`)).mtimeMs,
      );
      const took = (Math.max(...ends) - Math.min(...times)) / 1000;
      seconds.push(took);
      this.say(`${workers} worker${workers === 1 ? '' : 's'}: ${took.toFixed(1)} s`);
    }
    const [one, two] = seconds;
    console.log(`throughput of two workers against one: ${(one / two).toFixed(2)} x (at least 1.7 wanted)`);
    return one / two;
  }
}

/** Resolves to what `look` gives, as soon as that is something. */
export async function until(look, what, seconds = 60) {
  for (const end = performance.now() + seconds * 1000; performance.now() < end; await sleep(100)) {
    const found = await look();
    if (found !== undefined && found !== null && found !== false) return found;
  }
  return check(false, `waited ${seconds} s for ${what}`);
}

/** Processes with this in their environment. */
export function processesWith(entry) {
  return readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name))
    .filter((name) => {
      try {
        return readFileSync(join('/proc', name, 'environ'), 'latin1')
          .split('\0')
          .includes(entry);
      } catch {
        return false; // it has ended, or is somebody else's
      }
    })
    .map(Number);
}
