import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  // The example trainer imports the package by its name.
  resolve: { alias: { collapsar: new URL('./src/index.ts', import.meta.url).pathname } },
  test: {
    include: ['test/**/*.test.ts'],
    // Stress and property tests share few cores with the engine's own threads.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Processes, not threads: a crash in native code then takes one test file down and names it.
    pool: 'forks',
    // By default one core is left free, which of two is half. And some files wait, for servers and processes: one more.
    maxWorkers: Math.max(3, availableParallelism()),
  },
});
