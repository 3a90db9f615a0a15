// Finds the CUDA backend and tries it in another process, so that a backend or a driver that crashes or hangs does that
// there. Out: what GPUs there are, or in words why none can be used.

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { onAbort, unlessAborted } from '../../checks/abort.js';
import type { DeviceProblem } from '../../checks/errors.js';
import { addonPath } from '../addon.js';
import { cudaPackage, installedFile, isPublished } from '../prebuilt.js';
import type { CudaDevice } from './cuda-device.js';

export interface CudaMachine {
  /** The backend's file. */
  readonly path: string;
  /** The CUDA version that the driver can run, such as "13.0", and that of the backend's own runtime. */
  readonly driver: string;
  readonly runtime: string;
  /** What the backend was built with and for. */
  readonly build: string;
  readonly devices: readonly CudaDevice[];
}

export interface CudaProblem {
  readonly reason: DeviceProblem;
  /** In words, with what to do about it. */
  readonly problem: string;
}

const defaultLimitSeconds = 30;
/** A timer of Node's that is set to more milliseconds than 2^31 ends at once. */
const mostLimitSeconds = 2_000_000;

// `fd 3` because a backend may print what it likes.
const script = `
const [addon, path, index] = process.argv.slice(1);
const answer = require(addon).probeCuda(path, Number(index));
require('node:fs').writeSync(3, JSON.stringify(answer));`;

/**
 * @returns where the backend is expected, and whether the environment says so: one that was compiled, then the package
 */
function backendFile(): { path: string; given: boolean } {
  const given = process.env.COLLAPSAR_CUDA_BACKEND;
  // Whole: a bare name dlopen would look for in the system's libraries instead of here, where it is found to exist.
  if (given) return { path: resolve(given), given: true };
  const local = join(dirname(addonPath()), 'collapsar_cuda.so');
  return { path: existsSync(local) ? local : (installedFile(cudaPackage) ?? local), given: false };
}

function limitSeconds(): number {
  const given = Number(process.env.COLLAPSAR_CUDA_PROBE_SECONDS);
  return given > 0 ? Math.min(given, mostLimitSeconds) : defaultLimitSeconds;
}

function probe(path: string, index: number, signal: AbortSignal): Promise<CudaMachine | CudaProblem> {
  const limit = limitSeconds();
  // The options of this process are not meant for that one: a debugger's port, a loader, coverage.
  const { NODE_OPTIONS: _, NODE_V8_COVERAGE: __, ...env } = process.env;
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['-e', script, addonPath(), path, String(index)], {
      env: { ...env, ELECTRON_RUN_AS_NODE: '1' },
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
      signal,
      killSignal: 'SIGKILL',
    });
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      child.kill('SIGKILL');
    }, limit * 1000);
    const texts = { answer: '', stderr: '' };
    const keep = (name: keyof typeof texts) => (chunk: Buffer) => {
      texts[name] = (texts[name] + chunk.toString()).slice(-65_536);
    };
    child.stdio[2]?.on('data', keep('stderr'));
    child.stdio[3]?.on('data', keep('answer'));
    const end = (reason: DeviceProblem, problem: string): void => resolve({ reason, problem });
    child.on('error', ({ message }) => {
      clearTimeout(timer);
      end('failed', `the CUDA backend could not be tried in another process: ${message}`);
    });
    child.on('close', (status, by) => {
      clearTimeout(timer);
      if (timedOut) {
        end(
          'timeout',
          `the CUDA backend ${path} did not answer within ${limit} s: see whether nvidia-smi answers; ` +
            'COLLAPSAR_CUDA_PROBE_SECONDS sets another limit',
        );
      } else if (status !== 0) {
        // Node prints its own version last, after the error.
        const lines = texts.stderr.trim().split('\n');
        const last = lines.find((line) => /^\w*Error\b/.test(line)) ?? lines.at(-1);
        const how = by === null ? `ended with status ${status}` : `was ended by ${by}`;
        end(
          'crashed',
          `the process that tried the CUDA backend ${path} ${how}${last ? ` (${last})` : ''}: see whether nvidia-smi works, ` +
            'and build it afresh with npx collapsar build --cuda on',
        );
      } else {
        resolve(understood(path, texts.answer));
      }
    });
  });
}

function understood(path: string, text: string): CudaMachine | CudaProblem {
  let answer: CudaMachine | CudaProblem;
  try {
    answer = JSON.parse(text);
  } catch {
    const problem =
      `the process that tried the CUDA backend ${path} ended without an answer (a library or the driver ended it): ` +
      'see whether nvidia-smi works, and build it afresh with npx collapsar build --cuda on';
    return { reason: 'crashed', problem };
  }
  return 'problem' in answer ? answer : { ...answer, path };
}

interface Running {
  outcome: Promise<CudaMachine | CudaProblem>;
  waiting: number;
  readonly abort: AbortController;
}

// Once for a process, backend and device.
const probes = new Map<string, Running>();

/** Problems that may pass: a GPU that was full or taken is asked again by the next openEngine(). */
const passing: ReadonlySet<DeviceProblem> = new Set(['crashed', 'failed', 'out_of_memory', 'device_lost']);

/** @internal Lets the next openEngine() try again. */
export function forgetProbes(): void {
  probes.clear();
}

/**
 * Whether the GPU of that number can be used. The answer is kept for the process, unless it may change.
 * @throws signal.reason
 */
export async function probeCuda(index: number, signal: AbortSignal | undefined): Promise<CudaMachine | CudaProblem> {
  const { path, given } = backendFile();
  if (process.platform !== 'linux') {
    return { reason: 'not_built', problem: `the CUDA backend is for Linux, and this is ${process.platform}` };
  }
  if (!existsSync(path)) {
    return {
      reason: 'not_built',
      problem: given
        ? `there is no file ${path}, which COLLAPSAR_CUDA_BACKEND names`
        : `this installation has no CUDA backend (${path}): ${isPublished(cudaPackage) ? `npm install ${cudaPackage}, or ` : ''}` +
          'install the CUDA toolkit, 12.8 or newer, or its compiler alone (pip install nvidia-cuda-nvcc nvidia-cuda-cccl); then npx collapsar build --cuda on',
    };
  }
  const key = `${path}\n${index}`;
  let running = probes.get(key);
  if (running === undefined) {
    const abort = new AbortController();
    const started: Running = { outcome: probe(path, index, abort.signal), waiting: 0, abort };
    void started.outcome.then((outcome) => {
      if ('problem' in outcome && passing.has(outcome.reason) && probes.get(key) === started) probes.delete(key);
    });
    probes.set(key, started);
    running = started;
  }
  const mine = running;
  mine.waiting++;
  const { outcome, abort } = mine;
  const forget = onAbort(signal, () => {
    // Nobody else waits: no process stays behind.
    if (--mine.waiting > 0 || probes.get(key) !== mine) return;
    probes.delete(key);
    abort.abort();
  });
  return unlessAborted(outcome, signal).finally(forget);
}
