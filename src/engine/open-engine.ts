// What a caller wants to compute with -> an engine: on the CPU, or on a GPU that was found and tried.
import { availableParallelism } from 'node:os';
import { checkOptions, optionNames } from '../checks/argument-checks.js';
import { ArgumentError, DeviceError } from '../checks/errors.js';
import { shown } from '../checks/words.js';
import { loadAddon } from './addon.js';
import { probeCuda } from './device/cuda-probe.js';
import { Engine } from './engine.js';

/** Options of `openEngine`. */
export interface EngineOptions {
  /**
   * - `'cpu'`: the CPU, and nothing of CUDA is looked at.
   * - `'auto'` (default): a GPU for tensors that are on it (`upload`, `importDevice`), the CPU for tensors of the host:
   *   sending those through the GPU would take longer than the CPU's pass over them, and so they give the same bits on
   *   every machine. Without a usable GPU the CPU alone; `info.fallback` says why. The GPU is opened when it is first
   *   needed.
   * - `'cuda'` (the first GPU) or `'cuda:1'` (by its number): that GPU for all tensors, those of the host are sent
   *   through it in blocks. Throws if it cannot be had.
   */
  device?: 'auto' | 'cpu' | 'cuda' | `cuda:${number}` | undefined;
  /** Threads that compute, 1 to 1024. Default: as many as the machine lets this process run at once. */
  threads?: number | undefined;
  signal?: AbortSignal | undefined;
}

const OPTIONS = optionNames<EngineOptions>({ device: true, threads: true, signal: true });

const maxThreads = 1024;

/** @throws ArgumentError for a number of threads that no engine can have */
export function checkThreads(threads: unknown): void {
  if (Number.isInteger(threads) && (threads as number) >= 1 && (threads as number) <= maxThreads) return;
  throw new ArgumentError('options.threads', `got ${shown(threads)}, expected an integer from 1 to ${maxThreads}`);
}

/**
 * Opens an engine: loads the addon and starts its threads.
 * @throws ArgumentError, AddonError (no addon), DeviceError (the device asked for cannot be had), or `signal.reason`
 * @example
 * import { openEngine } from 'collapsar';
 *
 * await using engine = await openEngine({ device: 'auto' });
 * console.log(engine.info.device, engine.info.isa, engine.info.fallback);
 */
export async function openEngine(options: EngineOptions = {}): Promise<Engine> {
  checkOptions(options, OPTIONS);
  const { device = 'auto', threads = Math.min(availableParallelism(), maxThreads), signal } = options;
  signal?.throwIfAborted();
  if (typeof device !== 'string' || !/^(auto|cpu|cuda|cuda:\d+)$/.test(device)) {
    throw new ArgumentError(
      'options.device',
      `got ${shown(device)}, expected 'auto', 'cpu', 'cuda' or 'cuda:<number>'`,
    );
  }
  checkThreads(threads);
  const addon = loadAddon();
  if (device === 'cpu') return Engine.open(addon, { fallback: null }, threads, signal);
  const index = device.startsWith('cuda:') ? Number(device.slice('cuda:'.length)) : 0;
  const answer = await probeCuda(index, signal);
  if ('problem' in answer) {
    if (device === 'auto') return Engine.open(addon, { fallback: answer.problem }, threads, signal);
    throw new DeviceError(`${device}: ${answer.problem}; device 'cpu' needs no GPU`, { reason: answer.reason });
  }
  const chosen = { machine: answer, index, takesHostTensors: device !== 'auto' };
  return Engine.open(addon, { fallback: null, chosen }, threads, signal);
}
