// Work done as a user to whom permissions apply: the superuser, who may run the tests, is denied nothing.

/** False where the superuser runs the tests and cannot step down (in a worker thread). */
export const canBeUnprivileged = process.getuid?.() !== 0 || typeof process.seteuid === 'function';

/** Runs `work` as a user to whom permissions apply. */
export async function withoutPrivileges<T>(work: () => Promise<T>): Promise<T> {
  if (process.getuid?.() !== 0) return work();
  process.seteuid?.(65534);
  try {
    return await work();
  } finally {
    process.seteuid?.(0);
  }
}
