// Many waits on one signal: a signal warns of a leak at its eleventh listener, and dozens of reads may be waiting on
// that of the analysis at a time.

const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `listener` when the signal is aborted. @returns what stops that */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined) return () => undefined;
  const known = listeners.get(signal) ?? listen(signal);
  known.add(listener);
  return () => {
    known.delete(listener);
  };
}

function listen(signal: AbortSignal): Set<() => void> {
  const waiting = new Set<() => void>();
  listeners.set(signal, waiting);
  signal.addEventListener(
    'abort',
    () => {
      for (const listener of waiting) listener();
    },
    { once: true },
  );
  return waiting;
}
