// What `collapsar submit` hands to shells, schedulers and kubectl: words, index lists, scripts, YAML.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { shellLine, shellWord } from '../../src/checks/shell-words.js';
import { shardArrays } from '../../src/cluster/array-ranges.js';
import { kubernetesJobs } from '../../src/cluster/kubernetes.js';
import type { Submission } from '../../src/cluster/submission.js';
import { finishScript, shardScript } from '../../src/cluster/task-scripts.js';
import { yamlDocuments } from '../../src/cluster/yaml.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { standInCollapsar } from './submit-stand-ins.js';

const root = fileURLToPath(new URL('../../', import.meta.url));
const directory = temporaryDirectory();
/** What a path may hold, and a shell, Slurm or YAML would like to read. */
const NASTY = `a b'c"d$e\`f\\g%j*h`;

function sh(script: string, args: string[] = [], env: Record<string, string> = {}) {
  const options = { encoding: 'utf8', env: { ...process.env, ...env } } as const;
  return spawnSync('sh', ['-c', script, 'sh', ...args], options);
}

describe('words of a shell', () => {
  it('come back as they were', () => {
    const word = fc.string({ unit: 'grapheme', maxLength: 20 }).map((text) => text.replaceAll('\0', ''));
    const special = fc.stringMatching(/^[ '"$`\\\n\t;&|<>(){}*?!#~=%-]{0,12}$/);
    const list = fc.array(fc.oneof(word, special), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(list, (words) => {
        // A lone surrogate has no bytes of its own.
        const given = words.map((text) => Buffer.from(text).toString());
        expect(
          sh(`printf '%s\\0' ${shellLine(given)}`)
            .stdout.split('\0')
            .slice(0, -1),
        ).toEqual(given);
      }),
      { numRuns: 40 },
    );
  });

  it('are left bare where they can be', () => {
    expect(shellLine(['sbatch', '--array=0-4%2', '/a/b_c.sh'])).toBe('sbatch --array=0-4%2 /a/b_c.sh');
    expect(shellWord('')).toBe("''");
  });
});

describe('arrays of a scheduler', () => {
  /** As Slurm reads a list. */
  const read = (indices: string): number[] =>
    indices.split(',').flatMap((range) => {
      const [first = Number.NaN, last = first] = range.split('-').map(Number);
      return Array.from({ length: last - first + 1 }, (_, at) => first + at);
    });

  it('hold every shard once, in order, with indices below the limit', () => {
    const shards = fc.uniqueArray(fc.nat(5000), { maxLength: 400 }).map((list) => list.sort((a, b) => a - b));
    fc.assert(
      fc.property(shards, fc.integer({ min: 1, max: 2000 }), (missing, size) => {
        const arrays = shardArrays(missing, size);
        expect(arrays.flatMap(({ offset, indices }) => read(indices).map((index) => offset + index))).toEqual(missing);
        for (const { indices, tasks } of arrays) {
          expect(read(indices)).toHaveLength(tasks);
          for (const index of read(indices)) expect(index).toBeLessThan(size);
        }
      }),
    );
  });

  it('are as few as the limit allows, and their lists are ranges', () => {
    const all = Array.from({ length: 2500 }, (_, index) => index);
    expect(shardArrays(all, 1001)).toEqual([
      { offset: 0, indices: '0-1000', tasks: 1001 },
      { offset: 1001, indices: '0-1000', tasks: 1001 },
      { offset: 2002, indices: '0-497', tasks: 498 },
    ]);
    expect(shardArrays([3, 5, 6, 7, 2002], 1001)).toEqual([
      { offset: 0, indices: '3,5-7', tasks: 4 },
      { offset: 2002, indices: '0', tasks: 1 },
    ]);
    expect(shardArrays([], 10)).toEqual([]);
  });

  it('fit into a word of a command', () => {
    const odd = Array.from({ length: 100_000 }, (_, index) => 2 * index + 1);
    const arrays = shardArrays(odd, 4_000_000);
    for (const { indices } of arrays) expect(indices.length).toBeLessThan(128 * 1024 - 100);
    expect(arrays.reduce((sum, { tasks }) => sum + tasks, 0)).toBe(odd.length);
  });
});

let made = 0;
function submissionIn(base: string, changes: Partial<Submission> = {}): Submission {
  const work = join(base, `work ${made++}`);
  return {
    number: '001',
    directory: join(work, 'submissions', '001'),
    work,
    out: join(base, 'out'),
    from: base,
    paths: [join(base, 'runs')],
    measuring: ['--seed=3'],
    shards: 3,
    missing: [0, 1, 2],
    collapsar: shellWord(standInCollapsar(join(base, `collapsar-${made}`))),
    shardOptions: [],
    finishOptions: ['--jsonl'],
    again: "collapsar submit --engine=slurm '--work=a b'",
    ...changes,
  };
}

function base(): string {
  const path = join(directory, `${made} ${NASTY}`);
  mkdirSync(path, { recursive: true });
  return path;
}

/** How the stand-in was called. */
const callsOf = (path: string): string[] => readFileSync(`${path}.calls`, 'utf8').trimEnd().split('\n');

describe('the script that measures a shard', () => {
  it('hands over paths as they are, and the shard', () => {
    const place = base();
    const submission = submissionIn(place, { shardOptions: ['--max-memory=1000000'] });
    mkdirSync(submission.directory, { recursive: true });
    const { status, stderr } = sh(shardScript(submission, { index: '$1', threads: '"$(echo 2)"' }), ['7']);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const { work, paths } = submission;
    const words = ['analyze', '--shard', '7/3', '--out', work, '--threads', '2', '--seed=3', '--max-memory=1000000'];
    expect(callsOf(join(place, `collapsar-${made}`))).toEqual([[...words, '--quiet', '--', ...paths].join('|')]);
    expect(readFileSync(join(work, 'journals', '7-of-3'), 'utf8')).toBe('');
  });

  it('enters the directory that relative paths are relative to, and ends where that is not there', () => {
    const place = base();
    mkdirSync(join(place, 'here'));
    const submission = submissionIn(place, { from: join(place, 'here'), paths: ['runs/a', 's3://b/c', '/d'] });
    mkdirSync(submission.directory, { recursive: true });
    const where = `${submission.collapsar.slice(0, -1)}.where'`;
    const collapsar = `sh -c 'pwd >"$0"; shift; exec "$@"' ${where} x ${submission.collapsar}`;
    for (const script of [
      shardScript({ ...submission, collapsar }, { index: '$1' }),
      finishScript({ ...submission, collapsar, shards: 0 }, { patience: 0, every: 1 }),
    ]) {
      sh(script, ['0']);
      expect(readFileSync(`${join(place, `collapsar-${made}`)}.where`, 'utf8')).toBe(`${submission.from}\n`);
    }
    rmSync(submission.from, { recursive: true });
    for (const script of [
      shardScript(submission, { index: '$1' }),
      finishScript({ ...submission, shards: 0 }, { patience: 0, every: 1 }),
    ]) {
      const { status, stderr } = sh(script, ['0']);
      expect(status).not.toBe(0);
      expect(stderr).toContain('here');
    }
    expect(shardScript(submissionIn(place), { index: '$1' })).not.toMatch(/^cd /m);
  });

  it('leaves the number of threads to --threads', () => {
    const script = shardScript(submissionIn(base(), { shardOptions: ['--threads=3'] }), { index: '0', threads: '8' });
    expect(script).toContain('--threads=3');
    expect(script).not.toContain('--threads 8');
  });

  it('says what to do on a node that does not see the directory', () => {
    const { status, stderr } = sh(shardScript(submissionIn(base()), { index: '0' }));
    expect(status).toBe(1);
    expect(stderr).toContain('put --work on a file system that all nodes share');
  });
});

describe('the script that writes the results', () => {
  const wait = { patience: 0, every: 1 };

  it('analyses when all journals are there, and keeps the exit status', () => {
    const place = base();
    const submission = submissionIn(place);
    mkdirSync(submission.directory, { recursive: true });
    for (const index of submission.missing) {
      expect(sh(shardScript(submission, { index: '$1' }), [String(index)]).status).toBe(0);
    }
    const { status, stderr, stdout } = sh(finishScript(submission, wait));
    expect({ status, stdout, stderr }).toEqual({ status: 1, stdout: '', stderr: '1 file could not be used\n' });
    const kept = (name: string): string => readFileSync(join(submission.directory, name), 'utf8');
    expect(kept('status')).toBe('1\n');
    expect(kept('finish.out')).toBe('results\n');
    expect(kept('finish.err')).toBe('1 file could not be used\n');
    const { work, paths, out } = submission;
    const words = ['analyze', '--journals', work, '--out', out, '--seed=3', '--jsonl', '--quiet', '--', ...paths];
    expect(callsOf(join(place, `collapsar-${made}`)).at(-1)).toBe(words.join('|'));
  });

  it('names what is missing and how to go on, and analyses nothing', () => {
    const place = base();
    const submission = submissionIn(place, { shards: 120_000 });
    mkdirSync(submission.directory, { recursive: true });
    mkdirSync(join(submission.work, 'journals'), { recursive: true });
    const there = [0, 11, 222, 3333, 44_444, 119_999];
    for (const index of there) {
      writeFileSync(join(submission.work, 'journals', `${index}-of-120000`), '');
    }
    const { status, stderr } = sh(finishScript(submission, wait));
    expect(status).toBe(1);
    expect(stderr).toBe(
      'error: 119994 of 120000 shards are not complete: 1 2 3 4 5 6 7 8 9 10 12 13 14 15 16 17 18 19 20 21 …\n' +
        `Why is in ${submission.directory}/logs. The others are kept; to run only these again, and then the rest:\n` +
        `  ${submission.again}\n`,
    );
    expect(readFileSync(join(submission.directory, 'status'), 'utf8')).toBe('1\n');
    expect(() => callsOf(join(place, `collapsar-${made}`))).toThrow();
  });

  it('waits for journals that come late', () => {
    const submission = submissionIn(base(), { shards: 1 });
    mkdirSync(submission.directory, { recursive: true });
    const late = `(sleep 1; mkdir -p "$1/journals"; : >"$1/journals/0-of-1") &\n`;
    const { stderr } = sh(late + finishScript(submission, { patience: 20, every: 1 }), [submission.work]);
    expect(stderr).toBe('1 file could not be used\n');
  });
});

describe('jobs for Kubernetes', () => {
  const submission: Submission = {
    number: '001',
    directory: '/data/analysis/work/submissions/001',
    work: '/data/analysis/work',
    out: '/data/analysis/results',
    from: '/home/me',
    paths: ['/data/runs'],
    measuring: [],
    shards: 12,
    missing: Array.from({ length: 12 }, (_, index) => index),
    collapsar: 'collapsar',
    shardOptions: ['--max-memory=1073741824'],
    finishOptions: [],
    again:
      'collapsar submit --engine=kubernetes --max-memory=1073741824 --cpus=4 --mem=2147483648 --throttle=8 --retries=3 ' +
      '--image=registry.example/collapsar:0.1.0 --namespace=rl --claim=run-logs:/data ' +
      '--work=/data/analysis/work --out=/data/analysis/results',
  };
  const options = {
    name: 'collapsar',
    image: 'registry.example/collapsar:0.1.0',
    namespace: 'rl',
    claims: [{ claim: 'run-logs', mount: '/data' }],
    secrets: [],
    nodeSelector: {},
    cpus: 4,
    memory: 2 * 2 ** 30,
    throttle: 8,
    retries: 3,
    shardWait: undefined,
  };

  it('are those of examples/kubernetes', async () => {
    await expect(kubernetesJobs(submission, options)).toMatchFileSnapshot(
      join(root, 'examples', 'kubernetes', 'terabytes.yaml'),
    );
  });

  const hasKubectl = spawnSync('kubectl', ['version', '--client']).status === 0;

  /** As kubectl reads them, types checked; nothing is asked of a cluster. */
  function read(yaml: string): Record<string, unknown>[] {
    return yaml
      .split(/^---\n/m)
      .slice(1)
      .map((document) => {
        const args = ['patch', '--local', '-f', '-', '-p', '{}', '-o', 'json'];
        const { stdout, stderr } = spawnSync('kubectl', args, { input: document, encoding: 'utf8' });
        expect(stderr).toBe('');
        return JSON.parse(stdout);
      });
  }

  it.skipIf(!hasKubectl)('are read by kubectl as they were meant', () => {
    const place = `/data/${NASTY}`;
    const nasty = { ...submission, work: place, directory: `${place}/submissions/001`, missing: [3, 5] };
    const nodeSelector = { 'example.com/pool': 'yes', no: '0x1f' };
    const jobs = read(kubernetesJobs(nasty, { ...options, nodeSelector, secrets: ['s3'] }));
    const script = shardScript(nasty, {
      before: '# The shards that are left; this task\'s is at its index.\nset -- 3 5\nshift "$JOB_COMPLETION_INDEX"\n',
      index: '$1',
      threads: '4',
    });
    expect(jobs).toMatchObject([
      {
        kind: 'Job',
        metadata: { name: 'collapsar-001-shards', namespace: 'rl' },
        spec: {
          completionMode: 'Indexed',
          completions: 2,
          parallelism: 2,
          backoffLimitPerIndex: 3,
          template: {
            spec: {
              nodeSelector,
              containers: [
                {
                  command: ['/bin/sh', '-c', script],
                  envFrom: [{ secretRef: { name: 's3' } }],
                  resources: { requests: { cpu: '4' } },
                },
              ],
            },
          },
        },
      },
      { kind: 'Job', metadata: { name: 'collapsar-001-finish' } },
    ]);
    // The script finds the shard of its index.
    const found = sh('set -- 3 5\nshift "$JOB_COMPLETION_INDEX"\necho "$1"', [], { JOB_COMPLETION_INDEX: '1' });
    expect(found.stdout).toBe('5\n');
  });

  it('are several where there are more shards than a job may have', () => {
    const many = Array.from({ length: 250_001 }, (_, index) => index);
    const text = kubernetesJobs({ ...submission, shards: many.length, missing: many }, options);
    expect(text.match(/completions: .*/g)).toEqual([
      'completions: 100000',
      'completions: 100000',
      'completions: 50001',
    ]);
    expect(text.match(/JOB_COMPLETION_INDEX \+ .*(?=\)\))/g)).toEqual([
      'JOB_COMPLETION_INDEX + 0',
      'JOB_COMPLETION_INDEX + 100000',
      'JOB_COMPLETION_INDEX + 200000',
    ]);
  });

  it('are several where more shards are left than a command can list', () => {
    const left = Array.from({ length: 30_000 }, (_, index) => 1_000_000 + index);
    const text = kubernetesJobs({ ...submission, shards: 2_000_000, missing: left }, options);
    const lists = [...text.matchAll(/^ *set -- (.*)$/gm)].map(([, list = '']) => list);
    expect(lists.flatMap((list) => list.split(' ').map(Number))).toEqual(left);
    expect(text.match(/completions: .*/g)).toEqual(lists.map((list) => `completions: ${list.split(' ').length}`));
    // MAX_ARG_STRLEN, less what else the script says.
    for (const list of lists) expect(list.length).toBeLessThan(128 * 1024 - 8192);
  });

  it('have paths in them that Kubernetes would put variables into', () => {
    const place = '/data/$$a$(HOME)$$(UID)$b';
    const text = kubernetesJobs({ ...submission, work: place, directory: `${place}/submissions/001` }, options);
    // As Kubernetes reads a command: $$ is a dollar sign, $(NAME) a variable.
    const read = text.replace(/\$(?:(\$)|\(([A-Za-z_]+)\))/g, (_, dollar) => dollar ?? 'a variable');
    expect(text).toContain("work='/data/$$$a$$(HOME)$$$$(UID)$b'");
    expect(read).toContain(`work='${place}'`);
  });

  it('quote everything that YAML would read as something else', () => {
    const text = yamlDocuments([
      { no: 'no', list: ['1e3', '~', ' a', 'x\ny', '\u2028é😀', { deep: [[1], []] }], none: {} },
    ]);
    expect(text).toBe(`---
"no": "no"
list:
  - "1e3"
  - "~"
  - " a"
  - "x\\ny"
  - "\\u2028é😀"
  - deep:
      - - 1
      - []
none: {}
`);
  });
});
