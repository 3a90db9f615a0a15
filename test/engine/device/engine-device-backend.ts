// Which CUDA backend the device tests run with: its own sources on the emulated GPU (native/test/cuda_emulation), or with
// COLLAPSAR_TEST_DEVICE=cuda what was compiled for this machine's GPU, or what COLLAPSAR_CUDA_BACKEND names.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { DeviceError } from '../../../src/checks/errors.js';
import { forgetProbes } from '../../../src/engine/device/cuda-probe.js';
import type { Engine } from '../../../src/engine/engine.js';
import { type EngineOptions, openEngine } from '../../../src/engine/open-engine.js';
import { whileLocked } from '../../support/lock.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));

/** Whether the tests run on this machine's GPU. */
export const onGpu = process.env.COLLAPSAR_TEST_DEVICE === 'cuda';
const realBackend = process.env.COLLAPSAR_CUDA_BACKEND;

/** The backend of the emulated GPU, compiled now where it is older than a source; undefined where it cannot be. */
function buildEmulated(): string | undefined {
  if (process.platform !== 'linux') return undefined;
  const native = join(root, 'native');
  const sources = readdirSync(native, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const newest = Math.max(...sources.map(({ parentPath, name }) => statSync(join(parentPath, name)).mtimeMs));
  const built = join(root, 'build', 'cmake', 'Release', 'collapsar_cuda_emulated.so');
  const isFresh = () => existsSync(built) && statSync(built).mtimeMs > newest;
  if (isFresh()) return built;
  // Test files run side by side.
  return whileLocked('emulated-gpu', 600, () => {
    if (isFresh()) return built;
    const env = { ...process.env, LD_PRELOAD: '' };
    const { status } = spawnSync(process.execPath, [join(root, 'scripts', 'test-cpp.mjs'), '--backend'], { env });
    if (status !== 0) return undefined;
    utimesSync(built, new Date(), new Date()); // it may not depend on what has changed
    return built;
  });
}

export const emulatedPath = onGpu ? undefined : buildEmulated();

/** Whether there is any backend to test with. */
export const hasBackend = onGpu || emulatedPath !== undefined;

/** How the emulated GPU behaves: native/test/cuda_emulation/settings.h. */
const settings = ['FAIL', 'DEVICES', 'BYTES', 'LAUNCH_US', 'TRACE'] as const;
type Setting = (typeof settings)[number];

/** Sets how the emulated GPU behaves, and all else to what is usual; no effect on a real one. */
export function setEmulation(given: Partial<Record<Setting, string | number>> = {}): void {
  for (const name of settings) {
    const value = given[name];
    if (value === undefined) delete process.env[`COLLAPSAR_EMULATED_GPU_${name}`];
    else process.env[`COLLAPSAR_EMULATED_GPU_${name}`] = String(value);
  }
}

/** Makes openEngine() take the emulated GPU's backend (or the file given), and try it afresh. */
export function useBackend(path: string | undefined = emulatedPath): void {
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
  setPath(emulatedPath);
  return openEngine({ device: 'cuda', threads: 2, ...options });
}

/** What is free when the backend has given up its workspace, which it does before it refuses a tensor. */
export async function freeBytesOf(engine: Engine): Promise<number> {
  const refused = await engine.allocDevice('float64', [2 ** 40]).catch((error: unknown) => error);
  return (refused as DeviceError).freeBytes as number;
}

/** A file that the emulated GPU writes the calls to, and those calls. */
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
