// A library that was linked with -Ofast turns subnormal numbers into 0 in the thread that loads it, and in all threads
// that this one starts. Figures stay the same, to the bit.
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadAddon } from '../../src/engine/addon.js';
import { buildIfStale } from '../support/built-command.js';

interface Figures {
  digests: Record<string, string>;
  halved: number;
  accuracy: number;
}

const subnormal = 1e-315;
const figuresOf = async (isa: string, preload: Record<string, string>): Promise<Figures> => {
  const script = fileURLToPath(new URL('./float-mode-figures.mjs', import.meta.url));
  const env = { ...process.env, ...preload, COLLAPSAR_ISA: isa };
  const { stdout } = await promisify(execFile)(process.execPath, [script, String(subnormal)], { env });
  return JSON.parse(stdout);
};

// A sanitizer must be preloaded before anything else.
describe.skipIf(process.platform !== 'linux' || process.env.COLLAPSAR_SANITIZED !== undefined)(
  'figures beside a library that was linked with -Ofast',
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'collapsar-ofast-'));
    const library = join(folder, 'ofast.so');

    beforeAll(() => {
      buildIfStale();
      // Newer compilers leave crtfastmath.o out of shared libraries: the constructor does what it does.
      const source = `
        #if defined(__x86_64__)
        #include <xmmintrin.h>
        __attribute__((constructor)) static void flushSubnormals(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }
        #elif defined(__aarch64__)
        __attribute__((constructor)) static void flushSubnormals(void) {
          unsigned long control;
          __asm__ volatile("mrs %0, fpcr" : "=r"(control));
          __asm__ volatile("msr fpcr, %0" : : "r"(control | 1ul << 24));
        }
        #endif`;
      writeFileSync(join(folder, 'ofast.c'), source);
      execFileSync('cc', ['-Ofast', '-shared', '-fPIC', '-o', library, join(folder, 'ofast.c')]);
    }, 300_000);
    afterAll(() => rmSync(folder, { recursive: true }));

    it.each(loadAddon().isaAvailable())('are the same bits with %s kernels', async (isa) => {
      const alone = await figuresOf(isa, {});
      const beside = await figuresOf(isa, { LD_PRELOAD: library });
      // The library does its work.
      expect(alone.halved).toBe(subnormal / 2);
      expect(beside.halved).toBe(0);
      expect(beside.digests).toEqual(alone.digests);
      expect(Object.keys(beside.digests).length).toBeGreaterThan(50);
      expect(beside.accuracy).toBe(0.5);
    });
  },
);
