// scripts/gpu-check.py and bench/gpu/peers.py where a section or a peer goes wrong: nothing that was measured is lost,
// and the exit status says what is not known. Sections and peers are made up: no GPU, compiler or PyTorch is asked for.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const python = process.env.COLLAPSAR_PYTHON ?? 'python3';
const hasPython = spawnSync(python, ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))']).status === 0;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collapsar-gpu-check-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a program in Python, and gives its output and status. */
function run(program: string) {
  const { status, stdout, stderr } = spawnSync(python, ['-B', '-c', program], {
    encoding: 'utf8',
    env: { ...process.env, FOLDER: folder },
  });
  return { status, stdout, stderr };
}

/** Loads the script, for the folder and a made-up card. */
const script = `
import argparse, importlib.util, os, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("script", "scripts/gpu-check.py")
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
script.ROOT = Path(os.environ["FOLDER"])
script.GpuCheck.find_card = lambda self: {"name": "A card", "driver": "1", "capability": "9.0", "memory": "1 MiB"}
`;

/** The script with made-up sections, which `changes` says (`check` is the object); its results go to the folder. */
function gpuCheck(sections: string[], changes: string) {
  const ran = run(`${script}
check = script.GpuCheck(argparse.Namespace(dry_run=False, budget=60.0, results=None, commit=None, sections=${JSON.stringify(sections)}))
check.build = lambda: (True, "made up")
${changes}
sys.exit(check.run())
`);
  const results = join(folder, 'bench', 'results');
  const name = readdirSync(results).find((each) => each.endsWith('.json'));
  return { ...ran, stored: JSON.parse(readFileSync(join(results, name as string), 'utf8')) };
}

describe.skipIf(!hasPython)('gpu-check.py', () => {
  it('does without git', () => {
    const { status, stdout, stored } = gpuCheck(
      ['check'],
      'check.check = lambda: (True, "made up")\nos.environ["PATH"] = os.environ["FOLDER"]',
    );
    expect(status).toBe(0);
    expect(stdout).toContain('passed: check: made up');
    expect(stored.commit).toBeNull();
  });

  it.each(['AttributeError', 'TypeError', 'IndexError', 'RuntimeError'])(
    'goes on after a section that breaks with %s, and keeps where',
    (error) => {
      const { status, stdout, stored } = gpuCheck(
        ['check', 'sanitize'],
        `
def breaks():
    raise ${error}("of all things")
check.check = breaks
check.sanitize = lambda: (True, "made up")
`,
      );
      expect(status).toBe(1);
      expect(stdout).toContain('passed: sanitize: made up');
      expect(stdout).toMatch(new RegExp(`FAILED +check .*${error}: of all things`)); // in the table
      expect(stored.sections.check).toMatchObject({
        status: 'FAILED',
        note: `${error}: of all things`,
        traceback: expect.stringContaining('in breaks'),
      });
      expect(stored.sections.sanitize.traceback).toBeUndefined();
    },
  );

  it('leaves nothing running when it is interrupted', () => {
    const { status, stdout } = run(`
import os, signal, sys, threading, time
sys.path.insert(0, "scripts")
from gpu_check import processes
signal.signal(signal.SIGINT, signal.default_int_handler)
processes.stop_on_signals()
def interrupt():
    while len(processes.RUNNING) < 2:
        time.sleep(0.01)
    print("pids", *(process.pid for process in processes.RUNNING), flush=True)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
processes.run_together([["sleep", "300"]] * 3, 300, ".", at_once=2)
`);
    expect(status).toBe(130);
    const pids = /^pids (\d+) (\d+)$/m.exec(stdout)?.slice(1) as string[];
    for (const pid of pids) expect(() => process.kill(Number(pid), 0)).toThrow('ESRCH');
  });

  const eager = (more: object) =>
    Object.entries({
      operation: 'logit_stats',
      shape: '1x1',
      dtype: 'bfloat16',
      peer: 'torch eager',
      seconds: 1,
      ours_seconds: 0.05,
      times_faster: 20,
      problem: null,
      ...more,
    })
      .map(([key, value]) => `${JSON.stringify(key)}: ${value === null ? 'None' : JSON.stringify(value)}`)
      .join(', ');
  const peers = (...lines: string[]) => `
def peers_section():
    check.peers = [${lines.map((line) => `{${line}}`).join(', ')}]
    return True, "made up"
check.peers_section = peers_section
`;
  const all = ['torch eager', 'torch.compile', 'plain Triton'].map((peer) => eager({ peer }));
  const failed = eager({ peer: 'plain Triton', seconds: null, times_faster: null, problem: 'no Triton' });

  it('says so where every goal is reached', () => {
    const { status, stdout, stored } = gpuCheck(['peers'], peers(...all));
    expect(status).toBe(0);
    expect(stdout).toContain('all passed');
    expect(stored.goals.map(({ reached }: { reached: boolean }) => reached)).toEqual([true, true, true]);
  });

  it.each([
    ['missed', peers(...all.slice(0, 2), eager({ peer: 'plain Triton', times_faster: 1 })), false, '1 missed, 0 not'],
    ['whose peer failed', peers(...all.slice(0, 2), failed), null, '0 missed, 1 not measured'],
    ['that was not come to', peers(...all.slice(0, 2)), null, '0 missed, 1 not measured'],
  ])('has status 3 for a goal %s', (_, section, reached, last) => {
    const { status, stdout, stored } = gpuCheck(['peers'], section);
    expect(status).toBe(3);
    expect(stdout).toMatch(new RegExp(`against plain Triton .* ${reached === null ? 'NOT MEASURED' : 'MISSED'}`));
    expect(stdout).toContain(`nothing failed; of 3 goals ${last}`);
    expect(stored.goals[2]).toMatchObject({ what: 'logitStats against plain Triton', reached });
    if (reached === null) expect(stored.goals[2].value).toBeNull();
  });

  it('believes no figure of a peer that computes something else', () => {
    const other = eager({ peer: 'plain Triton', problem: 'entropy differs by 3' });
    const { status, stdout, stored } = gpuCheck(['peers'], peers(...all.slice(0, 2), other));
    expect(status).toBe(3);
    expect(stdout).toContain('(entropy differs by 3)');
    expect(stored.goals[2]).toMatchObject({ value: '20.00x', reached: null });
  });

  it('finds the figures between what libraries print, and keeps all of it', () => {
    const figures = `{${['case', 'bytes', 'seconds', 'wall_seconds', 'read_seconds', 'fraction']
      .map((key) => `"${key}": ${key === 'case' ? '"logits bf16 8192x151936"' : '0.95'}`)
      .join(', ')}}`;
    mkdirSync(join(folder, 'build', 'gpu'), { recursive: true });
    writeFileSync(
      join(folder, 'build', 'gpu', 'cuda_timing'),
      `#!/bin/sh\necho '{-# triton'\necho '{"warning": 1}'\necho '${figures}'\necho '{"case"'`,
      { mode: 0o755 },
    );
    const { stored, stdout } = gpuCheck(['time'], '');
    expect(stored.sections.time, stdout).toMatchObject({ status: 'passed', note: '1 cases' });
    expect(stored.goals[0]).toMatchObject({ value: '0.950 of read', reached: true });
    const results = join(folder, 'bench', 'results');
    const log = readdirSync(results).find((name) => name.endsWith('.log')) as string;
    expect(readFileSync(join(results, log), 'utf8')).toContain('{-# triton');
  });

  it('writes where --results says, with what was there when a section ran out of time', () => {
    const elsewhere = join(folder, 'else', 'where');
    const { stdout } = run(`${script}
check = script.GpuCheck(argparse.Namespace(dry_run=False, budget=60.0, results=${JSON.stringify(elsewhere)}, commit="abc", sections=["check"]))
check.build = lambda: check.run_command(["echo", "built"], 10)[0] == 0 and (True, "made up")
check.check = lambda: sys.exit(7)
check.run()
`);
    expect(stdout).toContain('=== check');
    const json = readdirSync(elsewhere).find((name) => name.endsWith('.json')) as string;
    expect(JSON.parse(readFileSync(join(elsewhere, json), 'utf8'))).toMatchObject({
      commit: 'abc',
      sections: { build: { status: 'passed' } },
    });
  });

  it('stops a program at its limit, whatever that has left behind', () => {
    const { stdout } = run(`
import sys, time
sys.path.insert(0, "scripts")
from gpu_check import processes
start = time.monotonic()
status, output = processes.run(["sh", "-c", "echo said; setsid sleep 20 & sleep 60"], 1, ".")
print(status, "said" in output, time.monotonic() - start < 10)
`);
    expect(stdout).toContain('124 True True');
  });

  it('counts the goals of a section that was skipped, not those of one that was not asked for', () => {
    const skips = (name: string) => `check.${name} = lambda: (None, "made up")\n`;
    const skipped = gpuCheck(['time', 'ipc'], skips('time') + skips('ipc_section'));
    expect(skipped.status).toBe(3);
    expect(skipped.stdout).toContain('of 6 goals 0 missed, 6 not measured');
    expect(skipped.stdout).toMatch(/IPC import to result .* must +200 us .*NOT MEASURED/);
    rmSync(join(folder, 'bench'), { recursive: true });
    expect(gpuCheck(['sanitize'], skips('sanitize')).status).toBe(0);
  });

  it.each([
    ['found nothing', 'echo "========= ERROR SUMMARY: 0 errors"', 'passed'],
    ['lost its program, and ends as that does', 'echo "========= No attachable process found."', 'FAILED'],
    ['found an error', 'echo "========= ERROR SUMMARY: 1 error"; exit 9', 'FAILED'],
  ])('believes a sanitizer that says that it %s', (_, says, expected) => {
    writeFileSync(join(folder, 'compute-sanitizer'), `#!/bin/sh\n${says}\n`, { mode: 0o755 });
    const { stdout, stored } = gpuCheck(
      ['sanitize'],
      'os.environ["PATH"] = os.environ["FOLDER"] + os.pathsep + os.environ["PATH"]',
    );
    expect(stored.sections.sanitize.status, stdout).toBe(expected);
  });
});

describe.skipIf(!hasPython)('bench/gpu/peers.py', () => {
  // The modules that need a GPU are made up, and so are the peers: what fails is the point.
  const withPeers = (changes: string) => {
    const { status, stdout, stderr } = run(`
import sys, types
def module(name, **members):
    sys.modules[name] = types.SimpleNamespace(**members)
x = types.SimpleNamespace(dtype="torch.bfloat16")
ok = lambda *arguments: {}
module("torch", compile=lambda call, dynamic: call, cuda=types.SimpleNamespace(empty_cache=lambda: None))
module("tensors", seconds=lambda call: call() or 1.0, flush=lambda: None)
module("eager", logit_stats=ok)
module("backend", Backend=None)
module("triton_logits", logit_stats=ok)
${changes}
sys.path.insert(0, "bench/gpu")
import peers
backend = types.SimpleNamespace(logit_stats=lambda *arguments: {}, kernel_seconds=types.SimpleNamespace(value=0.5))
peers.run_case(backend, "logit_stats", "1x1", [x], float("inf"))
`);
    expect(stderr).toBe('');
    expect(status).toBe(0);
    const lines = stdout.trim().split('\n');
    return lines
      .map((line) => JSON.parse(line))
      .map(({ peer, times_faster, problem }) => [peer, times_faster, problem]);
  };

  it('times each peer', () => {
    expect(withPeers('')).toEqual([
      ['torch eager', 2, null],
      ['torch.compile', 2, null],
      ['plain Triton', 2, null],
    ]);
  });

  it.each([
    ['without Triton', 'sys.modules["triton_logits"] = None', 'ModuleNotFoundError: import of triton_logits halted'],
    [
      'where Triton fails in its own way',
      `
class CompilationError(Exception):
    pass
def fails(*arguments):
    raise CompilationError("at 1:2\\nmore")
module("triton_logits", logit_stats=fails)`,
      'CompilationError: at 1:2',
    ],
    [
      'where an error says nothing',
      `
def fails(*arguments):
    assert False
module("triton_logits", logit_stats=fails)`,
      'AssertionError',
    ],
  ])('times the others %s', (_, changes, problem) => {
    const [first, second, third] = withPeers(changes);
    expect([first, second]).toEqual([
      ['torch eager', 2, null],
      ['torch.compile', 2, null],
    ]);
    expect(third?.slice(0, 2)).toEqual(['plain Triton', null]);
    expect(third?.[2]).toMatch(new RegExp(`^${problem}`));
  });

  it('goes on where torch.compile refuses', () => {
    const lines = withPeers(`
def refuses(call, dynamic):
    raise RuntimeError("not with this Python")
sys.modules["torch"].compile = refuses`);
    expect(lines.map(([, times]) => times)).toEqual([2, null, 2]);
    expect(lines[1]?.[2]).toBe('RuntimeError: not with this Python');
  });
});
