// Whether a path is an address, such as s3://bucket/prefix, and no name in a file system.

export function isAddress(path: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(path);
}
