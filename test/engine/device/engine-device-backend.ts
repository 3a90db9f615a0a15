// Which CUDA backend the device tests run with: a fake one on host memory (native/test/fake_cuda), or with
// COLLAPSAR_TEST_DEVICE=cuda the real one, on this machine's GPU, or, where COLLAPSAR_CUDA_BACKEND names the one that
// the C++ tests build, on the emulated GPU (native/test/cuda_emulation).
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { addonPath } from '../../../src/engine/addon.js';
import { forgetProbes } from '../../../src/engine/device/cuda-probe.js';
import type { Engine } from '../../../src/engine/engine.js';
import { type EngineOptions, openEngine } from '../../../src/engine/open-engine.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const native = join(root, 'native');

/** Whether the real backend is tested. */
export const onGpu = process.env.COLLAPSAR_TEST_DEVICE === 'cuda';
const realBackend = process.env.COLLAPSAR_CUDA_BACKEND;

/** The fake, as the C++ tests' build left it, or compiled now; undefined where it cannot be had. */
function findFake(): string | undefined {
  if (process.platform !== 'linux') return undefined;
  const folder = join(native, 'test', 'fake_cuda');
  const age = Math.max(...readdirSync(folder).map((name) => statSync(join(folder, name)).mtimeMs));
  const built = join(dirname(addonPath()), 'fake_cuda_backend.so');
  if (existsSync(built) && statSync(built).mtimeMs > age) return built;
  const own = join(root, 'build', 'fake-cuda', 'fake_cuda_backend.so');
  if (existsSync(own) && statSync(own).mtimeMs > age) return own;
  mkdirSync(dirname(own), { recursive: true });
  // Under another name first: test files run side by side.
  const fresh = `${own}.${process.pid}`;
  const flags = ['-std=c++20', '-O2', '-fPIC', '-shared', '-fvisibility=hidden', `-I${native}`];
  const sources = JSON.parse(readFileSync(join(native, 'sources.json'), 'utf8')).fakeCuda as string[];
  const files = sources.map((file) => join(native, file));
  const { status } = spawnSync('c++', [...flags, ...files, '-o', fresh], { env: { ...process.env, LD_PRELOAD: '' } });
  if (status !== 0) return undefined;
  spawnSync('mv', [fresh, own]);
  return own;
}

export const fakePath = findFake();

/** Whether there is any backend to test with. */
export const hasBackend = onGpu || fakePath !== undefined;

/** Whether events of other processes are files that are there when they have happened: not on a real GPU. */
export const eventsAreFiles = onGpu ? (realBackend ?? '').includes('emulated') : fakePath !== undefined;

type Setting = 'FAIL' | 'DEVICES' | 'BYTES' | 'ROW_US' | 'TRACE';

/** Sets what the fake shall do, and nothing else; no effect on a real backend. */
export function setFake(settings: Partial<Record<Setting, string | number>> = {}): void {
  for (const name of ['FAIL', 'DEVICES', 'BYTES', 'ROW_US', 'TRACE'] as const) {
    const value = settings[name];
    if (value === undefined) delete process.env[`COLLAPSAR_FAKE_CUDA_${name}`];
    else process.env[`COLLAPSAR_FAKE_CUDA_${name}`] = String(value);
  }
}

/** Makes openEngine() take the fake (or the file given), and try it afresh. */
export function useBackend(path: string | undefined = fakePath): void {
  forgetProbes();
  setPath(path);
}

function setPath(path: string | undefined): void {
  const chosen = onGpu ? realBackend : path;
  if (chosen === undefined) delete process.env.COLLAPSAR_CUDA_BACKEND;
  else process.env.COLLAPSAR_CUDA_BACKEND = chosen;
}

/** An engine with a GPU, for `await using`. */
export function openOnDevice(options: EngineOptions = {}): Promise<Engine> {
  setPath(fakePath);
  return openEngine({ device: 'cuda', threads: 2, ...options });
}

/** A file that the fake writes its calls to, and those calls. */
export class Trace {
  readonly #folder = mkdtempSync(join(tmpdir(), 'collapsar-trace-'));
  readonly path = join(this.#folder, 'calls');

  get calls(): string[] {
    return existsSync(this.path) ? readFileSync(this.path, 'utf8').trimEnd().split('\n') : [];
  }

  clear(): void {
    rmSync(this.path, { force: true });
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
