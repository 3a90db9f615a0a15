/** Exported names, types included, by the file of their level. */
export function exportedNames(): Map<string, string[]>;

/** Options of each command as its help names them, the help's own among them. */
export function commandOptions(): Map<string, string[]>;
