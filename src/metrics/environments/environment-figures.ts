// Figures of the environments that a batch mixes: each is a batch within the batch, measured as if nothing else were
// there.

/** What one environment of a step shows by itself. */
export interface EnvironmentFigures<Figures> {
  readonly name: string;
  /** Rows of the step that are of it, and their prompts. */
  readonly rows: number;
  readonly prompts: number;
  /** Missing for fewer than two prompts, which show no dependence, and of the smallest beyond MOST_NAMED. */
  readonly figures?: Figures;
}

/** At most this many environments of a step (the largest by rows) get figures under their own names. */
export const MOST_NAMED = 64;

/** Before the keys of an environment: in its name, what parts keys is escaped. */
export function environmentPrefix(name: string): string {
  return `environment/${name.replaceAll('%', '%25').replaceAll('/', '%2F')}/`;
}

/** The largest environments by rows, of equal ones the first by name. @param rows of each, in the order of the names */
export function namedEnvironments(rows: readonly { readonly length: number }[]): Set<number> {
  const bySize = [...rows.keys()].sort((a, b) => (rows[b]?.length ?? 0) - (rows[a]?.length ?? 0) || a - b);
  return new Set(bySize.slice(0, MOST_NAMED));
}

/** Permutations per p-value for this many environments: the smallest p must be far below their shared level. */
export function sharedPermutations(permutations: number, environments: number): number {
  return permutations === 0 ? 0 : Math.max(permutations, 40 * (environments + 1));
}

/** The figures of every environment under the keys that are logged. */
export function loggedEnvironments(
  environments: readonly EnvironmentFigures<{ readonly logged: Readonly<Record<string, number>> }>[],
): Record<string, number> {
  const logged: Record<string, number> = {};
  for (const { name, figures } of environments) {
    const prefix = environmentPrefix(name);
    for (const [key, value] of Object.entries(figures?.logged ?? {})) logged[prefix + key] = value;
  }
  return logged;
}
