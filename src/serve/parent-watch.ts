// A sidecar must not outlive its trainer. The end of stdin says so first; but a trainer's other children may have
// inherited the pipe's end, and keep it open.

const LOOK_EVERY_MS = 500;

/**
 * @param parent process to watch besides the one that started this, if a wrapper is in between; undefined: none
 * @param gone called once, when one of the two has ended
 * @returns stops watching
 */
export function watchParent(parent: number | undefined, gone: () => void): () => void {
  const starter = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === starter && (parent === undefined || isAlive(parent))) return;
    clearInterval(timer);
    gone();
  }, LOOK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Of another user: alive, and not ours to ask.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
