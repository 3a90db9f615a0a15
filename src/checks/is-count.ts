// A value that was read back from a file -> whether it is a count, as one was written.
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
