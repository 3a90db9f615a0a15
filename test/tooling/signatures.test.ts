// The check of native signatures that lint runs: that it finds what it is there for.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot as root } from '../../src/checks/package-root.js';

const { signatureProblems } = (await import(join(root, 'scripts', 'signatures.mjs'))) as {
  signatureProblems: (read?: (file: string) => string) => string[];
};

/** The repository with one text replaced in one file. */
function problemsWith(changed: string, from: string, to: string): string[] {
  return signatureProblems((file) => {
    const text = readFileSync(join(root, file), 'utf8');
    if (file !== changed) return text;
    expect(text).toContain(from);
    return text.replace(from, to);
  });
}

describe('signatureProblems', () => {
  const declared = 'src/engine/native.ts';

  it('finds nothing in the repository', () => {
    expect(signatureProblems()).toEqual([]);
  });

  it('finds an argument that is not declared', () => {
    const problems = problemsWith(declared, 'topK: number, outOnDevice: boolean]', 'outOnDevice: boolean]');
    expect(problems).toEqual([expect.stringMatching(/^NativeEngine.scoreStats: native code says .*topK: number/)]);
  });

  it('finds an argument of another type', () => {
    const problems = problemsWith(
      declared,
      'allocDevice(settle: Settle, bytes: number)',
      'allocDevice(settle: Settle, bytes: bigint)',
    );
    expect(problems).toEqual([expect.stringContaining('declares (bytes: bigint)')]);
  });

  it('finds a method that is declared and not offered, and one that is offered and not declared', () => {
    const problems = problemsWith(declared, '  freeDevice(settle', '  dropDevice(settle');
    expect(problems).toEqual([
      'NativeEngine.freeDevice is not declared in native.ts',
      'NativeEngine.dropDevice is declared, but engine_object.cpp has no such method',
    ]);
  });

  it('finds a result of another form', () => {
    const problems = problemsWith(
      'native/node/token_sink_object.cpp',
      '// unclaim(block: number): void',
      '// unclaim(block: number): number',
    );
    expect(problems).toEqual([expect.stringMatching(/^NativeTokenSink.unclaim: native code says .*: number/)]);
  });
});
