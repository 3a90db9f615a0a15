export function whileLocked<T>(name: string, seconds: number, work: () => T): T;
