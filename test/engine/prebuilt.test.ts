// Which optional package has the addon of which platform.
import { afterEach, describe, expect, it, vi } from 'vitest';
import { prebuiltPackage } from '../../src/engine/prebuilt.js';

const { platform, arch } = process;

function pretend(os: string, cpu: string, glibc?: string): void {
  Object.defineProperty(process, 'platform', { value: os });
  Object.defineProperty(process, 'arch', { value: cpu });
  vi.spyOn(process.report, 'getReport').mockReturnValue({ header: glibc ? { glibcVersionRuntime: glibc } : {} });
}

afterEach(() => {
  Object.defineProperty(process, 'platform', { value: platform });
  Object.defineProperty(process, 'arch', { value: arch });
  vi.restoreAllMocks();
});

describe('prebuiltPackage', () => {
  it.each([
    ['linux', 'x64', '2.31', '@collapsar/linux-x64-gnu'],
    ['linux', 'arm64', '2.36', '@collapsar/linux-arm64-gnu'],
    ['linux', 'x64', undefined, '@collapsar/linux-x64-musl'],
    ['darwin', 'arm64', undefined, '@collapsar/darwin-arm64'],
  ])('on %s, %s, with glibc %s, is %s', (os, cpu, glibc, name) => {
    pretend(os, cpu, glibc);
    expect(prebuiltPackage()).toBe(name);
  });

  it('leaves the setting of reports as it was', () => {
    const before = { ...process.report };
    prebuiltPackage();
    expect({ ...process.report }).toEqual(before);
  });
});
