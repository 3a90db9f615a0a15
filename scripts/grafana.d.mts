/** Contents by path in the repository, of what the table of metrics (src/sinks/prometheus) gives. */
export function grafanaFiles(table: object): Record<string, string>;
