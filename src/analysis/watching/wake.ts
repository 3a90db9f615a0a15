// Decides when to look again: after an interval at the latest, as network file systems report no changes, or sooner if
// the system reports one.
import { type FSWatcher, watch } from 'node:fs';

/** Writers write in pieces: what comes together is looked at once. */
const CALM_MS = 200;

export class Wake {
  readonly #watchers: FSWatcher[] = [];
  #changed = false;
  #wake: (() => void) | undefined;
  #calm: NodeJS.Timeout | undefined;

  /**
   * @param directories whose changes the system is asked to report; if it cannot, only the interval counts
   * @param intervalMs longest wait
   */
  constructor(
    directories: readonly string[],
    private readonly intervalMs: number,
  ) {
    for (const directory of directories) {
      try {
        const watcher = watch(directory, { recursive: true, persistent: false }, () => this.#notice());
        watcher.on('error', () => watcher.close());
        this.#watchers.push(watcher);
      } catch {
        // Too many watches, a folder that is not there yet, or a platform that has none.
      }
    }
  }

  /** @throws the signal's reason when it is aborted */
  async next(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (!this.#changed) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, this.intervalMs);
        const end = () => {
          clearTimeout(timer);
          signal.removeEventListener('abort', end);
          resolve();
        };
        this.#wake = end;
        signal.addEventListener('abort', end, { once: true });
      });
      this.#wake = undefined;
    }
    this.#changed = false;
    signal.throwIfAborted();
  }

  close(): void {
    clearTimeout(this.#calm);
    for (const watcher of this.#watchers) watcher.close();
  }

  #notice(): void {
    this.#calm ??= setTimeout(() => {
      this.#calm = undefined;
      this.#changed = true;
      this.#wake?.();
    }, CALM_MS);
  }
}
