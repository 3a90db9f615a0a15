// The optional packages that bring compiled files: which ones fit this machine, and where they are.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { moduleUrl, packageRoot } from '../checks/package-root.js';

/** The C library that Node runs with; only Linux has two. Musl is what is not glibc, as `process.report` shows. */
function libc(): 'gnu' | 'musl' {
  const report: NodeJS.ProcessReport & { excludeNetwork?: boolean | undefined } = process.report;
  const { excludeNetwork } = report;
  report.excludeNetwork = true; // else Node 22 asks a name server about every address of this machine
  const { header } = report.getReport() as { header?: { glibcVersionRuntime?: string } };
  report.excludeNetwork = excludeNetwork;
  return header?.glibcVersionRuntime ? 'gnu' : 'musl';
}

/** The package with this platform's addon: `@collapsar/linux-x64-gnu`. Not every name has one. */
export function prebuiltPackage(): string {
  const { platform, arch } = process;
  return `@collapsar/${platform}-${arch}${platform === 'linux' ? `-${libc()}` : ''}`;
}

/** The package with this platform's CUDA backend, which is installed by hand. */
export const cudaPackage = `@collapsar/${process.platform}-${process.arch}-cuda`;

/** Whether this release of collapsar was published with that package: package.json says so then. */
export function isPublished(name: string): boolean {
  const manifest = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'));
  return name in { ...manifest.optionalDependencies, ...manifest.peerDependencies };
}

/** The main file of an installed package, or undefined. */
export function installedFile(name: string): string | undefined {
  try {
    return createRequire(moduleUrl).resolve(name);
  } catch {
    return undefined;
  }
}
