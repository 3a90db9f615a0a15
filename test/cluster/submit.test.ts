// `collapsar submit` as a user meets it, with programs that stand in for those of Slurm and for Python.
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { packageVersion } from '../../src/checks/package-version.js';
import { shellWord } from '../../src/checks/shell-words.js';
import { usualShards } from '../../src/cli/commands/submit/analysis-of-work.js';
import { Interrupted } from '../../src/cli/output/streams.js';
import { collapsar, keeping } from '../cli/cli-streams.js';
import { putStep, smallStep } from '../support/analysis-logs.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { standInCollapsar, standIns } from './submit-stand-ins.js';

const directory = temporaryDirectory();
const slurm = standIns(directory);
const program = join(directory, 'collapsar');
standInCollapsar(program);
const runs = join(directory, 'runs');
for (let step = 0; step < 6; step++) await putStep(join(runs, `step_${step}.safetensors`), smallStep(step));

let made = 0;
let work = '';
let out = '';
beforeEach(() => {
  slurm.forget();
  const base = join(directory, `${made++} it's`);
  work = join(base, 'work');
  out = join(base, 'out');
});

const places = (): string[] => [`--work=${work}`, `--out=${out}`];
const submit = (...args: string[]) => collapsar(['submit', ...args, ...places(), '--quiet']);
const first = (...args: string[]) => submit(runs, '--engine=slurm', '--shards=6', '--permutations=9', ...args);
const again = (...args: string[]) => submit('--engine=slurm', ...args);
/** Really measures these shards. */
async function measure(...shards: number[]): Promise<void> {
  for (const index of shards) {
    const shard = ['--shard', `${index}/6`, '--out', work, '--permutations=9'];
    expect((await collapsar(['analyze', runs, ...shard])).status).toBe(0);
  }
}

/** Of each call of sbatch: the words that matter, by what they set. */
function submitted(): { array?: string; dependency?: string; script: string; offset?: string; words: string[] }[] {
  return slurm.calls('sbatch').map((words) => {
    const value = (name: string) => words.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3);
    const at = words.findIndex((word) => word.endsWith('.sh'));
    const script = (words[at] as string).slice(work.length + 1);
    const [array, dependency, offset] = [value('array'), value('dependency'), words[at + 1]];
    const set = { ...(array && { array }), ...(dependency && { dependency }), ...(offset && { offset }) };
    return { ...set, script, words };
  });
}

const withoutWords = () => submitted().map(({ words: _, ...rest }) => rest);

describe('usage', () => {
  it.each<[string[], string]>([
    [[], "required option '--engine <name>'"],
    [['--engine=pbs', runs], 'slurm, ray, kubernetes'],
    [['--engine=ray', '--partition=cpu', runs], '--partition is for --engine slurm, not for ray'],
    [['--engine=slurm', '--image=x', runs], '--image is for --engine kubernetes, not for slurm'],
    [['--engine=slurm', '--seed=3'], '--seed goes with PATHS'],
    [['--engine=slurm'], 'analysis.json is not there: give PATHS'],
    [['--engine=slurm', runs, '--name=A_b'], 'small letters'],
    [['--engine=slurm', runs, '--throttle=0'], 'from 1'],
    [['--engine=slurm', runs, '--shards=0'], 'from 1'],
    [['--engine=ray', runs, '--ray-resource=fast'], '--ray-resource fast: expected two parts'],
    [['--engine=ray', runs, '--ray-resource=fast=no'], 'NAME=NUMBER'],
    [['--engine=ray', runs, '--ray-resource=fast=1e999'], 'NAME=NUMBER'],
    [['--engine=slurm', runs, '--partition='], 'Expected something'],
    [['--engine=slurm', runs, '--sbatch-arg='], 'Expected something'],
    [['--engine=kubernetes', runs, '--env-secret='], 'Expected something'],
    [['--engine=kubernetes', runs], 'needs --image'],
    [['--engine=kubernetes', runs, '--image=x'], 'needs --claim'],
    [['--engine=kubernetes', runs, '--image=x', '--claim=data:/elsewhere'], 'is in no --claim'],
    [['--engine=kubernetes', runs, '--image=x', '--claim=data:/', '--wait'], 'kubectl wait'],
  ])('%j is refused', async (args, problem) => {
    const { status, out: text, err } = await submit(...args);
    expect({ status, text }).toEqual({ status: 2, text: '' });
    expect(err).toContain(problem);
    expect(slurm.calls('sbatch')).toEqual([]);
  });
});

describe('the analysis of --work', () => {
  const file = () => join(work, 'analysis.json');

  it('is kept, and is the same again with or without its paths', async () => {
    expect((await first()).status).toBe(0);
    const text = readFileSync(file(), 'utf8');
    expect((await first()).status).toBe(0);
    expect((await again()).out).toContain('6 submitted');
    expect(readFileSync(file(), 'utf8')).toBe(text);
  });

  it.each([
    [['--permutations=10', '--shards=6']],
    [['--permutations=9', '--shards=5']],
    [['--permutations=9', '--shards=6', '--exclude=x']],
  ])('is not written over by another one: %j', async (options) => {
    await first();
    const text = readFileSync(file(), 'utf8');
    const { status, err } = await submit(runs, '--engine=slurm', ...options);
    expect(status).toBe(1);
    expect(err).toContain('or give another --work');
    expect(readFileSync(file(), 'utf8')).toBe(text);
  });

  it('of another version is refused', async () => {
    await first();
    writeFileSync(file(), readFileSync(file(), 'utf8').replace(packageVersion(), '9.9.9'));
    expect(await again()).toMatchObject({ status: 1, err: expect.stringContaining('of another version of collapsar') });
  });

  it('that is damaged is named', async () => {
    await first();
    for (const text of ['', '{}', 'null', '{"head":']) {
      writeFileSync(file(), text);
      expect(await again()).toMatchObject({ status: 1, err: expect.stringContaining(`${file()}: damaged`) });
    }
  });

  it('leaves out files that cannot be used, and says so', async () => {
    const bad = join(directory, 'bad.safetensors');
    writeFileSync(bad, 'nothing');
    const { status, err } = await first(bad);
    expect(status).toBe(0);
    expect(err).toContain(bad);
    const nothing = await submit('--engine=slurm', join(directory, 'not-there'));
    expect(nothing.status).toBe(1);
  });

  // 64 prompts × 512 responses × 1,024 tokens in float32, with header and columns.
  it.each([
    [1, 1],
    [16, 2],
    [100, 7],
    [1000, 63],
    [10_000, 64],
    [200_000, 391],
  ])('of %i large steps has %i shards where nobody says how many', (steps, shards) => {
    expect(usualShards(steps * 134_224_256)).toBe(shards);
  });

  it('does not take journals of another number of shards for its own', async () => {
    await first();
    await measure(0, 1);
    mkdirSync(join(work, 'journals', '3-of-7'));
    writeFileSync(join(work, 'journals', '.4-of-6'), '');
    expect((await again()).out).toContain('6 shards: 2 complete');
  });
});

describe('slurm', () => {
  it('gets scripts that the user who runs them may see, and whom the umask lets', async () => {
    const before = process.umask(0o077);
    try {
      await first();
    } finally {
      process.umask(before);
    }
    const modes = ['shard.sh', 'finish.sh', 'slurm.json'].map((name) => {
      return statSync(join(work, 'submissions', '001', name)).mode & 0o777;
    });
    expect(modes).toEqual([0o700, 0o700, 0o600]);
  });

  it('gets an array of all shards, and a task that depends on it', async () => {
    const options = ['--partition=cpu', '--account=a b', '--qos=low', '--time=1:00:00', '--cpus=4', '--mem=2GiB'];
    const more = ['--throttle=3', '--sbatch-arg=--constraint=ssd', '--name=mine', `--collapsar=${program}`];
    const { status, out: said } = await first(...options, ...more);
    expect(status).toBe(0);
    expect(said).toContain('6 shards: 0 complete, 0 under way, 6 submitted');
    expect(said).toContain('scancel 101 102');
    const [array, last] = submitted();
    const logs = join(work, 'submissions', '001', 'logs');
    const common = ['--requeue', '--open-mode=append'];
    const rest = [
      '--partition=cpu',
      '--account=a b',
      '--qos=low',
      '--time=1:00:00',
      '--cpus-per-task=4',
      '--mem=2048M',
    ];
    const scripts = join(work, 'submissions', '001');
    const map = [
      '--parsable',
      '--job-name=mine-shard',
      ...common,
      `--output=${logs}/shard-%A_%a.log`,
      `--chdir=${work}`,
    ];
    expect(array?.words).toEqual([
      ...[...map, ...rest, '--array=0-5%3', '--constraint=ssd'],
      ...[join(scripts, 'shard.sh'), '0'],
    ]);
    const end = ['--job-name=mine-finish', ...common, `--output=${logs}/finish-%j.log`, `--chdir=${work}`, ...rest];
    expect(last?.words).toEqual([
      ...['--parsable', '--dependency=afterany:101', ...end, '--constraint=ssd'],
      join(scripts, 'finish.sh'),
    ]);
  });

  it('gets as many arrays as its limit asks for; with a throttle one after the other', async () => {
    slurm.setMaxArraySize(4);
    await first();
    expect(withoutWords()).toEqual([
      { array: '0-3', script: 'submissions/001/shard.sh', offset: '0' },
      { array: '0-1', script: 'submissions/001/shard.sh', offset: '4' },
      { dependency: 'afterany:101:102', script: 'submissions/001/finish.sh' },
    ]);
    slurm.forget();
    slurm.setMaxArraySize(4);
    await again('--throttle=2');
    expect(withoutWords()).toEqual([
      { array: '0-3%2', script: 'submissions/002/shard.sh', offset: '0' },
      { array: '0-1%2', dependency: 'afterany:101', script: 'submissions/002/shard.sh', offset: '4' },
      { dependency: 'afterany:101:102', script: 'submissions/002/finish.sh' },
    ]);
  });

  it('gets only what is missing when it is submitted again', async () => {
    await first();
    await measure(0, 2, 3);
    slurm.forget();
    const { out: said } = await again();
    expect(said).toContain('6 shards: 3 complete, 0 under way, 3 submitted');
    expect(withoutWords()[0]).toEqual({ array: '1,4-5', script: 'submissions/002/shard.sh', offset: '0' });
    await measure(1, 4, 5);
    slurm.forget();
    expect((await again()).out).toContain('nothing to measure; results: job 101');
    expect(withoutWords()).toEqual([{ script: 'submissions/003/finish.sh' }]);
  });

  it('does not get twice what is in the queue; the last task waits for all', async () => {
    await first();
    slurm.setQueue([
      ['101', 1, 'RUNNING'],
      ['101', 4, 'PENDING'],
      ['101', 5, 'COMPLETING'],
      ['77', 2, 'RUNNING'],
      ['102', 'N/A', 'PENDING'],
    ]);
    await measure(0);
    writeFileSync(join(slurm.directory, 'sbatch.calls'), '');
    const { out: said } = await again();
    expect(said).toContain('6 shards: 1 complete, 2 under way, 3 submitted');
    expect(withoutWords()).toEqual([
      { array: '2-3,5', script: 'submissions/002/shard.sh', offset: '0' },
      { dependency: 'afterany:101:103', script: 'submissions/002/finish.sh' },
    ]);
    expect(slurm.calls('scancel')).toEqual([['102']]);
    expect((await again('--dry-run')).out).toMatch(/afterany:101:\$\{shards_1%%;\*\} .*\nscancel 102 \|\| true\n$/);
    // Now there is nothing that is not under way.
    slurm.setQueue([
      ...[1, 4].map((index) => ['101', index, 'RUNNING'] as const),
      ...[2, 3, 5].map((index) => ['103', index, 'PENDING'] as const),
      ['104', 'N/A', 'PENDING'],
    ]);
    writeFileSync(join(slurm.directory, 'sbatch.calls'), '');
    const third = await again();
    expect(third.out).toContain(`nothing to submit: ${join(work, 'submissions', '002')} is still at it`);
    expect(slurm.calls('sbatch')).toEqual([]);
  });

  it('that refuses a part is told of, and the rest can be submitted', async () => {
    slurm.setMaxArraySize(2);
    slurm.failFrom(3);
    const { status, err } = await first();
    expect(status).toBe(1);
    expect(err).toContain('QOSMaxSubmitJobPerUserLimit');
    expect(err).toContain('2 of 3 arrays were submitted (101, 102); submit again for the rest');
    slurm.failFrom(0);
    slurm.setQueue([
      ['101', 0, 'RUNNING'],
      ['101', 1, 'RUNNING'],
      ['102', 0, 'PENDING'],
      ['102', 1, 'PENDING'],
    ]);
    writeFileSync(join(slurm.directory, 'sbatch.calls'), '');
    expect((await again()).status).toBe(0);
    expect(withoutWords()).toEqual([
      { array: '0-1', script: 'submissions/002/shard.sh', offset: '4' },
      { dependency: 'afterany:101:102:104', script: 'submissions/002/finish.sh' },
    ]);
  });

  it('that does not answer is told of with what to do', async () => {
    const scontrol = join(slurm.directory, 'scontrol');
    const standIn = readFileSync(scontrol);
    writeFileSync(
      scontrol,
      '#!/bin/sh\necho "slurm_load_ctl_conf error: Unable to contact slurm controller" >&2\nexit 1\n',
    );
    try {
      const { status, err } = await first();
      expect(status).toBe(1);
      expect(err).toContain('scontrol failed: slurm_load_ctl_conf error: Unable to contact slurm controller\n');
      expect(err).toContain(
        'see whether its controller is up (scontrol ping), or submit from a machine that reaches it',
      );
    } finally {
      writeFileSync(scontrol, standIn);
    }
  });

  it('that is not here is named', async () => {
    const path = process.env.PATH;
    process.env.PATH = join(directory, 'nothing');
    try {
      const { status, err } = await first();
      expect(status).toBe(1);
      expect(err).toContain('scontrol: there is no such program here');
      const dry = await first('--dry-run', `--collapsar=${program}`);
      expect(dry.status).toBe(0);
      expect(dry.out).toContain('its default, 1001, is taken');
    } finally {
      process.env.PATH = path;
    }
  });
});

describe('--dry-run', () => {
  /** What differs from run to run. */
  const settled = (text: string): string =>
    text
      .replaceAll(directory, 'DIR')
      .replaceAll(process.cwd(), 'HERE')
      .replaceAll(/\/[0-9]+ it/g, '/N it')
      .replaceAll(/[0-9a-f]{32}/g, 'DIGEST')
      .replaceAll(packageVersion(), 'VERSION');

  it('prints scripts and commands, and writes nothing', async () => {
    slurm.setMaxArraySize(4);
    const { status, out: text, err } = await first('--dry-run', `--collapsar=${program}`, '--throttle=2', '--jsonl');
    expect({ status, err }).toEqual({ status: 0, err: '' });
    expect(settled(text)).toMatchSnapshot();
    expect(existsSync(work)).toBe(false);
    expect(slurm.calls('sbatch')).toEqual([]);
  });

  it('prints a script that does what the command does', async () => {
    slurm.setMaxArraySize(4);
    const options = [`--collapsar=${shellWord(program)}`, '--throttle=2'];
    await first(...options);
    const expected = submitted();
    const scripts = ['shard.sh', 'finish.sh'].map((name) =>
      readFileSync(join(work, 'submissions', '001', name), 'utf8'),
    );
    const before = expected[0]?.words;
    const firstWork = work;
    slurm.forget();
    slurm.setMaxArraySize(4);
    work = work.replace(/work$/, 'the other work');
    const dry = await first(...options, '--dry-run');
    const { status, stderr } = spawnSync('sh', { input: dry.out, encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(submitted()[0]?.words.map((word) => word.replaceAll(work, firstWork))).toEqual(before);
    expect(withoutWords()).toEqual(expected.map(({ words: _, ...rest }) => rest));
    for (const [at, name] of ['shard.sh', 'finish.sh'].entries()) {
      const written = readFileSync(join(work, 'submissions', '001', name), 'utf8');
      // The quote within it is written differently.
      expect(written.replaceAll('the other work', 'work')).toBe(scripts[at]);
    }
  });

  it('prints a script whose texts end where they do, whatever the paths are', async () => {
    work = join(work, 'a\nEND_OF_FILE\nexit 3\n');
    const dry = await first(`--collapsar=${shellWord(program)}`, '--dry-run');
    const { status, stderr } = spawnSync('sh', { input: dry.out, encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(readFileSync(join(work, 'submissions', '001', 'finish.sh'), 'utf8')).toMatch(/\nexit "\$status"\n$/);
  });

  it('prints the driver of Ray and what it is given', async () => {
    const more = ['--ray-address=head:6379', '--ray-resource=fast=.5', '--mem=1GiB', '--cpus=2', '--throttle=10'];
    const { status, out: text } = await submit(
      runs,
      '--engine=ray',
      '--shards=2',
      `--collapsar=${program}`,
      ...more,
      '--dry-run',
    );
    expect(status).toBe(0);
    const tasks = JSON.parse(/^\{"address".*$/m.exec(text)?.[0] ?? '');
    expect(tasks).toMatchObject({ address: 'head:6379', shards: [0, 1], cpus: 2, throttle: 10, retries: 5 });
    expect(tasks).toMatchObject({ memory: 2 ** 30, resources: { fast: 0.5 } });
    expect(text).toContain('ray.init(address=address');
    expect(settled(text).split('\n').slice(-2)[0]).toMatch(
      /^python3 '.*driver\.py' '.*tasks\.json' >>'.*driver\.log' 2>&1 &$/,
    );
    expect(existsSync(work)).toBe(false);
  });

  it('of Kubernetes prints the jobs that are then for kubectl', async () => {
    const options = ['--engine=kubernetes', '--image=i', `--claim=data:${directory}`, '--shards=2'];
    const dry = await submit(runs, ...options, '--dry-run');
    expect(existsSync(work)).toBe(false);
    const real = await submit(runs, ...options);
    expect(real).toMatchObject({ status: 0, out: dry.out, err: expect.stringContaining('2 in these jobs') });
    expect(readFileSync(join(work, 'submissions', '001', 'jobs.yaml'), 'utf8')).toBe(dry.out);
    expect(dry.out.match(/^kind: /gm)).toHaveLength(2);
  });
});

describe('--wait', () => {
  /** A cluster that measures these shards at once when it is asked for anything, and then writes the results. */
  async function submitAndRun(shards: readonly number[], args: string[]) {
    const err = keeping();
    const running = collapsar(
      [
        'submit',
        runs,
        '--engine=slurm',
        '--shards=6',
        `--collapsar=${shellWord(program)}`,
        ...places(),
        '--wait',
        '--shard-wait=0',
        '--quiet',
        ...args,
      ],
      { err },
    );
    const scripts = join(work, 'submissions', '001');
    slurm.setQueue([['102', 'N/A', 'PENDING']]);
    while (!existsSync(join(scripts, 'slurm.json'))) await new Promise((done) => setTimeout(done, 20));
    while (slurm.calls('sbatch').length < 2) await new Promise((done) => setTimeout(done, 20));
    for (const index of shards) {
      const env = { ...process.env, SLURM_ARRAY_TASK_ID: `${index}` };
      expect(spawnSync('sh', [join(scripts, 'shard.sh'), '0'], { env }).status).toBe(0);
    }
    spawnSync('sh', [join(scripts, 'finish.sh')]);
    return running;
  }

  it('ends with what the analysis printed, and its exit status', async () => {
    const { status, out: text, err } = await submitAndRun([0, 1, 2, 3, 4, 5], []);
    expect({ status, text }).toEqual({ status: 1, text: 'results\n' });
    expect(err).toContain('6 submitted');
    expect(err).toMatch(/1 file could not be used\n$/);
  });

  it('names the shards that failed and how to go on', async () => {
    const { status, out: text, err } = await submitAndRun([0, 1, 2, 4, 5], ['--throttle=2']);
    expect({ status, text }).toEqual({ status: 1, text: '' });
    expect(err).toContain('error: 1 of 6 shards are not complete: 3\n');
    expect(err).toContain('--throttle=2 ');
    expect(err).toContain(shellWord(`--work=${work}`));
  });

  it('says so when the jobs are gone without a result', async () => {
    const { status, err } = await first('--wait');
    expect(status).toBe(1);
    expect(err).toContain('has ended without a result');
    expect(err).toContain('does every node see that directory?');
  });

  it('leaves the jobs alone when it is interrupted', async () => {
    slurm.setQueue([['102', 'N/A', 'PENDING']]);
    const ending = new AbortController();
    setTimeout(() => ending.abort(new Interrupted('SIGINT')), 1500);
    const args = ['submit', runs, '--engine=slurm', ...places(), '--wait'];
    const { status, err } = await collapsar(args, { signal: ending.signal });
    expect(status).toBe(130);
    expect(err).toContain('The jobs go on; to follow them again:\n  collapsar submit --engine=slurm');
    expect(slurm.calls('scancel')).toEqual([]);
  });
});

it('takes a pipe in the place of a record for none that can be read', async () => {
  await first();
  const record = join(work, 'submissions', '001', 'slurm.json');
  rmSync(record);
  spawnSync('mkfifo', [record]);
  const { status, out: said } = await again();
  expect({ status, said }).toMatchObject({ status: 0, said: expect.stringContaining('6 submitted') });
});

it.each<[string, (file: string) => void, string]>([
  ['a pipe', (file) => spawnSync('mkfifo', [file]), 'cannot be read: this is a pipe'],
  [
    'a word',
    (file) => writeFileSync(file, 'zero\n'),
    'expected an exit status, got "zero\\n": see the log of the last task',
  ],
])('names an exit status that is %s', async (_, put, problem) => {
  slurm.setQueue([['102', 'N/A', 'PENDING']]);
  const running = first('--wait');
  const file = join(work, 'submissions', '001', 'status');
  while (slurm.calls('sbatch').length < 2) await new Promise((done) => setTimeout(done, 20));
  put(file);
  const { status, err } = await running;
  expect(status).toBe(1);
  expect(err).toContain(`${file}: ${problem}`);
});

it('names what is in the place of its directory of submissions', async () => {
  await first();
  rmSync(join(work, 'submissions'), { recursive: true });
  writeFileSync(join(work, 'submissions'), '');
  const { status, err } = await again();
  expect(status).toBe(1);
  expect(err).toContain(`${join(work, 'submissions')}: cannot be listed: a part of the path is a file`);
});

describe('a file system of one machine', () => {
  it('is pointed out', async () => {
    const { err } = await first();
    // Where tests run on a shared one there is nothing to say.
    if (err !== '') expect(err).toMatch(/^note: .* is on \w+, which usually belongs to one machine/);
  });
});

describe('ray', () => {
  /** Runs the driver's job without Ray: what `python` is given, in its place. */
  function standInPython(body: string): string {
    const path = join(directory, `python-${made}`);
    writeFileSync(path, `#!/bin/sh\nif [ "$1" = -c ]; then exit 0; fi\n${body}\n`);
    chmodSync(path, 0o755);
    return path;
  }

  it('gets a driver that goes on by itself, and that is followed', async () => {
    const here = '"$(dirname "$1")"';
    const python = standInPython(`sleep 1; for i in 0 1; do sh ${here}/shard.sh $i; done; sh ${here}/finish.sh`);
    const args = ['--engine=ray', `--python=${python}`, `--collapsar=${shellWord(program)}`];
    const begun = await submit(runs, ...args, '--shards=2');
    expect(begun).toMatchObject({ status: 0, out: expect.stringContaining('2 submitted\ndriver: process ') });
    const followed = await submit(...args, '--wait');
    expect(followed.err).toContain('nothing to submit');
    expect(followed).toMatchObject({ status: 1, out: 'results\n' });
    expect(readdirSync(join(work, 'submissions'))).toEqual(['001']);
    const tasks = JSON.parse(readFileSync(join(work, 'submissions', '001', 'tasks.json'), 'utf8'));
    expect(tasks.shards).toEqual([0, 1]);
  });

  it('is done when its results are, also while the driver is still leaving the cluster', async () => {
    const python = standInPython('sh "$(dirname "$1")"/finish.sh; sleep 3; true');
    const args = ['--engine=ray', `--python=${python}`, `--collapsar=${shellWord(program)}`, '--shard-wait=0'];
    await submit(runs, ...args, '--shards=2', '--wait');
    expect(existsSync(join(work, 'submissions', '001', 'status'))).toBe(true);
    const again = await submit(...args);
    expect(again.err + again.out).toContain('0 under way, 2 submitted');
  });

  it('is asked for with another interpreter where there is none', async () => {
    const { status, err } = await submit(runs, '--engine=ray', '--python=/does/not/exist');
    expect(status).toBe(1);
    expect(err).toContain('--python');
  });

  const hasPython = spawnSync('python3', ['--version']).status === 0;

  it.skipIf(!hasPython)('is not what the directory that it is submitted from calls so', async () => {
    const elsewhere = join(directory, 'a checkout of ray');
    mkdirSync(elsewhere);
    writeFileSync(join(elsewhere, 'ray.py'), 'open("was-run", "w")\n');
    const python = join(directory, 'python-elsewhere');
    writeFileSync(python, `#!/bin/sh\ncd '${elsewhere}'\nexec python3 -S "$@"\n`);
    chmodSync(python, 0o755);
    const { status, err } = await submit(runs, '--engine=ray', `--python=${python}`);
    expect(status).toBe(1);
    expect(err).toMatch(/No module named 'ray'\nname an interpreter that has Ray with --python/);
    expect(existsSync(join(elsewhere, 'was-run'))).toBe(false);
  });

  it('that dies leaves the way to go on', async () => {
    const python = standInPython('echo "no cluster" >&2; exit 1');
    const { status, err } = await submit(runs, '--engine=ray', `--python=${python}`, '--wait');
    expect(status).toBe(1);
    expect(err).toContain('has ended without a result');
    expect(readFileSync(join(work, 'submissions', '001', 'driver.log'), 'utf8')).toBe('no cluster\n');
  });
});
