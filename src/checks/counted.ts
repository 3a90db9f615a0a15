// A number and what it counts, for messages: 1 row, 2 rows.

/** @param what in the plural, as `rows` or `entries` */
export function counted(count: number, what: string): string {
  if (count !== 1) return `${count} ${what}`;
  return `1 ${what.endsWith('ies') ? `${what.slice(0, -3)}y` : what.slice(0, -1)}`;
}
