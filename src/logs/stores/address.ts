// Recognises addresses, such as s3://bucket/prefix, as opposed to names in a file system.

export function isAddress(path: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(path);
}
