// Which CUDA backend the device tests run with: its own sources on the emulated GPU (native/test/cuda_emulation), or with
// COLLAPSAR_TEST_DEVICE=cuda what was compiled for this machine's GPU, or what COLLAPSAR_CUDA_BACKEND names.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nativeTarget } from '../../../scripts/native-target.mjs';
import type { DeviceError } from '../../../src/checks/errors.js';
import { forgetProbes } from '../../../src/engine/device/cuda-probe.js';
import type { Engine } from '../../../src/engine/engine.js';
import { type EngineOptions, openEngine } from '../../../src/engine/open-engine.js';

/** Whether the tests run on this machine's GPU. */
export const onGpu = process.env.COLLAPSAR_TEST_DEVICE === 'cuda';
const realBackend = process.env.COLLAPSAR_CUDA_BACKEND;

/** The backend of the emulated GPU; undefined where it cannot be compiled. */
export const emulatedPath = onGpu || process.platform !== 'linux' ? undefined : nativeTarget('emulatedGpu');

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
