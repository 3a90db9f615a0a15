// Opens an engine on the CPU, or on a GPU that was found and tried.

import { availableParallelism } from 'node:os';
import { DeviceError } from '../checks/errors.js';
import { checkOptions, is, type OptionTable } from '../checks/options.js';
import { loadAddon } from './addon.js';
import { probeCuda } from './device/cuda-probe.js';
import { Engine } from './engine.js';

/** Options of `openEngine`. */
export interface EngineOptions {
  /**
   * - `'cpu'`: the CPU, and nothing of CUDA is looked at.
   * - `'auto'` (default): a GPU for tensors that are on it (`upload`, `importDevice`), the CPU for tensors of the host:
   *   sending those through the GPU would take longer than the CPU's pass over them, and so they give the same bits on
   *   every machine. Without a usable GPU only the CPU; `info.fallback` says why. The GPU is opened when it is first
   *   needed.
   * - `'cuda'` (the first GPU) or `'cuda:1'` (by its number): that GPU for all tensors, those of the host are sent
   *   through it in blocks. Throws if it cannot be had.
   */
  device?: 'auto' | 'cpu' | 'cuda' | `cuda:${number}` | undefined;
  /** Threads that compute, 1 to 1024. Default: as many as the machine lets this process run at once. */
  threads?: number | undefined;
  signal?: AbortSignal | undefined;
}

const MOST_THREADS = 1024;

/** Threads of an engine. */
export const THREADS = is.integer(1, MOST_THREADS);

const DEVICE = is.text("'auto', 'cpu', 'cuda' or 'cuda:<number>'", /^(auto|cpu|cuda|cuda:\d+)$/);
const OPTIONS: OptionTable<EngineOptions> = { device: DEVICE, threads: THREADS, signal: is.signal };

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
  const { device = 'auto', threads = Math.min(availableParallelism(), MOST_THREADS), signal } = options;
  signal?.throwIfAborted();
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
