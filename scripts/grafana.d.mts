/** Path in the repository -> content, of what the table of metrics (src/sinks/prometheus) gives. */
export function grafanaFiles(table: object): Record<string, string>;
