// The command as a process of its own: streams, signals and the time it takes. It runs what is in dist/.
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { exampleRuns, putStep, smallStep } from '../support/analysis-logs.js';
import { buildIfStale, builtCommand as main } from '../support/built-command.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const root = fileURLToPath(new URL('../../', import.meta.url));
const directory = temporaryDirectory();

beforeAll(buildIfStale);

interface Ended {
  status: number | null;
  out: string;
  err: string;
}

function collapsar(args: string[], started: (child: ChildProcess) => void = () => {}): Promise<Ended> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [main, ...args], { maxBuffer: 2 ** 28 }, (_, out, err) => {
      resolve({ status: child.exitCode, out, err });
    });
    started(child);
  });
}

describe('the process', () => {
  it('analyses the three example runs', async () => {
    const { status, out, err } = await collapsar(['analyze', exampleRuns, '--quiet']);
    expect({ status, err }).toEqual({ status: 0, err: '' });
    expect(out.match(/^ {2}\S (collapse|filtered|healthy) /gm)).toHaveLength(3);
  });

  it('ends with the status of its command', async () => {
    expect(await collapsar(['analyze', directory])).toMatchObject({ status: 1, out: '' });
    expect(await collapsar(['analyze', '--nothing'])).toMatchObject({ status: 2, out: '' });
    expect(await collapsar(['--version'])).toMatchObject({
      status: 0,
      out: `${JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version}\n`,
      err: '',
    });
  });

  it('ends quietly when the reader of its output goes', async () => {
    const command = `"${process.execPath}" "${main}" analyze "${exampleRuns}" --jsonl --permutations 0 | head -n 1`;
    const { stdout, stderr } = spawnSync('sh', ['-c', command], { encoding: 'utf8' });
    expect(stdout.split('\n').filter((line) => line !== '')).toHaveLength(1);
    expect(JSON.parse(stdout).step).toBe(1);
    expect(stderr).toBe('');
  });

  it
    .skipIf(process.platform !== 'linux')
    .each([
      [`analyze "${exampleRuns}/healthy" --permutations 0 --quiet`],
      [`analyze "${exampleRuns}/healthy" --jsonl`],
      [`analyze "${exampleRuns}/healthy" --permutations 0 --shard 0/1 --out "${join(directory, 'shards')}"`],
      ['--version'],
    ])('says so when its output cannot be written: %s', (args) => {
    const command = `"${process.execPath}" "${main}" ${args} > /dev/full`;
    const { status, stderr } = spawnSync('sh', ['-c', command], { encoding: 'utf8' });
    expect(stderr).toBe('error: stdout: cannot write here: the disk is full: free some space and try again (ENOSPC)\n');
    expect(status).toBe(1);
  });

  it.skipIf(process.platform !== 'linux')('says that a step cannot be read from a pipe, and what to do', () => {
    const step = join(exampleRuns, 'healthy', 'step_00001.safetensors');
    const command = `cat "${step}" | "${process.execPath}" "${main}" analyze /dev/stdin`;
    const { status, stderr } = spawnSync('sh', ['-c', command], { encoding: 'utf8' });
    expect(status).toBe(1);
    expect(stderr).toMatch(/\/dev\/stdin: this is not a regular file \(a pipe, .*write it to a file, and name that/);
  });

  it.skipIf(!existsSync('/proc/self'))(
    'ends where a directory cannot be made, below /proc too',
    async () => {
      const run = join(directory, 'run-of-one');
      const first = await putStep(join(run, '0.safetensors'), smallStep(0));
      const command = (...args: string[]) => {
        // One that hangs there takes no other signal.
        const limits = { timeout: 30_000, killSignal: 'SIGKILL', encoding: 'utf8' } as const;
        const { status, stderr } = spawnSync(process.execPath, [main, ...args], limits);
        return { status, stderr };
      };
      for (const args of [
        ['analyze', first, '--out', '/proc/x'],
        ['analyze', first, '--shard', '0/1', '--out', '/proc/x/y'],
        ['submit', first, '--engine', 'ray', '--work', '/proc/x', '--out', join(directory, 'results')],
      ]) {
        expect(command(...args), args.join(' ')).toEqual({
          status: 1,
          stderr: expect.stringMatching(/^(note: .*\n)*error: \/proc\/x\/?.*: cannot write here: /),
        });
      }
    },
    150_000,
  );

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('ends on %s with %d and leaves nothing half-written', async (signal, expected) => {
    const out = join(directory, signal);
    const run = join(directory, `long-${signal}`);
    const first = await putStep(join(run, '0.safetensors'), smallStep(0));
    const results = await new Promise<Ended>((resolve) => {
      // Enough to do: the permutations of one step alone take minutes.
      const child = spawn(process.execPath, [
        main,
        'analyze',
        first,
        '--jsonl',
        '--out',
        out,
        '--permutations',
        '10000000',
      ]);
      let err = '';
      child.stderr.on('data', (data) => {
        err += data;
      });
      child.on('close', (status) => resolve({ status, out: '', err }));
      const looking = setInterval(() => {
        if (!readdirSync(directory).includes(signal) || readdirSync(out).length === 0) return;
        clearInterval(looking);
        // Some time into the computation.
        setTimeout(() => child.kill(signal), 200);
      }, 10);
    });
    expect(results).toMatchObject({ status: expected, err: `interrupted by ${signal}\n` });
    expect(readdirSync(out)).toEqual([]);
  });
});

describe.skipIf(process.platform === 'win32').each(['SIGINT', 'SIGTERM'] as const)('%s', (signal) => {
  it.each([['filter'], ['plan-scores', '--negatives', '3']])(
    'ends %s while it waits for a pipe',
    async (...command) => {
      const pipe = join(directory, `${command[0]}-${signal}`);
      spawnSync('mkfifo', [pipe]);
      for (const path of ['-', pipe]) {
        const child = spawn(process.execPath, [main, ...command, path]);
        let err = '';
        child.stderr.on('data', (data) => {
          err += data;
        });
        const ended = new Promise((resolve) => child.on('close', (status, by) => resolve(by ?? status)));
        // When it reads: it listens to signals then.
        const writer = path === '-' ? undefined : await open(pipe, 'w');
        if (writer === undefined) await new Promise((resolve) => child.stdin.write('\n'.repeat(2 ** 20), resolve));
        child.kill(signal);
        // Who cannot call off its reading is ended by the signal itself, of which a shell says the same.
        expect([signal, signal === 'SIGINT' ? 130 : 143]).toContain(await ended);
        expect(err).toBe(`interrupted by ${signal}\n`);
        await writer?.close();
      }
    },
  );
});

describe('doctor', () => {
  it('finds this installation in order', async () => {
    const { status, out } = await collapsar(['doctor', '--json']);
    expect(status).toBe(0);
    const findings = JSON.parse(out);
    expect(findings).toMatchObject({
      node: process.version,
      selfTest: { passed: true, problem: null },
      cuda: { available: false, reason: expect.any(String) },
    });
    expect(statSync(findings.addon.path).isFile()).toBe(true);
    expect(findings.instructionSets.available).toContain(findings.instructionSets.inUse);
    expect(findings.memory.totalBytes).toBeGreaterThan(0);
    const text = await collapsar(['doctor']);
    expect(text.status).toBe(0);
    expect(text.out).toMatch(/self-test +passed/);
    expect(text.out).toContain(findings.addon.path);
  });

  it('says what to do where the addon does not load', async () => {
    // A copy of the package without its addon.
    const { cpSync, mkdirSync } = await import('node:fs');
    const copy = join(directory, 'package');
    mkdirSync(copy);
    cpSync(join(root, 'dist'), join(copy, 'dist'), { recursive: true });
    cpSync(join(root, 'package.json'), join(copy, 'package.json'));
    mkdirSync(join(copy, 'node_modules'));
    for (const name of ['commander', 'tinyglobby', 'fdir', 'picomatch']) {
      cpSync(join(root, 'node_modules', name), join(copy, 'node_modules', name), { recursive: true });
    }
    const { status, stdout } = spawnSync(process.execPath, [join(copy, 'dist', 'cli', 'main.js'), 'doctor'], {
      encoding: 'utf8',
    });
    expect(status).toBe(1);
    expect(stdout).toMatch(/addon +not loaded/);
    expect(stdout).toContain('npx collapsar build');
  });

  it('says which variable names an addon that does not load', () => {
    const env = { ...process.env, COLLAPSAR_ADDON: join(directory, 'no.node') };
    const { status, stdout } = spawnSync(process.execPath, [join(root, 'dist', 'cli', 'main.js'), 'doctor'], {
      encoding: 'utf8',
      env,
    });
    expect(status).toBe(1);
    expect(stdout.replace(/\s+/g, ' ')).toContain('The environment variable COLLAPSAR_ADDON names it');
  });
});
