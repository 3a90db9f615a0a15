import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** More than half of the time of all files: services, clusters, killed processes, sizes. `npm run ci` runs them, `npm test` the rest. */
const long = [
  ...['bench-budget', 'bench-long', 'cli-process', 'cli-shards', 'engine-peak', 'filter-many', 'gpu-check'],
  ...['install', 'intervals-uneven', 'logs-s3', 'monitor-memory', 'results-faults', 'results-many', 'score-plan-large'],
  ...['shards-killed', 'shards-s3', 'submit', 'text-calibration', 'trainer'],
  ...['addon-loading', 'bench-compare', 'bench-suite', 'engine-device-loading', 'metrics-samplers', 'monitor-restore'],
  ...['score-plan', 'shards', 'sidecar', 'report-page', 'moved-page', 'packed-bombs'],
].map((name) => `test/**/${name}.test.ts`);
const set = process.env.COLLAPSAR_TESTS;
// Instrumented code is slower by as much.
const limit = process.env.COLLAPSAR_SANITIZED === undefined ? 60_000 : 300_000;

export default defineConfig({
  // The example trainer imports the package by its name.
  resolve: {
    alias: [
      { find: /^collapsar$/, replacement: new URL('./src/index.ts', import.meta.url).pathname },
      { find: /^collapsar\/([a-z]+)$/, replacement: new URL('./src/exports/$1.ts', import.meta.url).pathname },
    ],
  },
  test: {
    include: set === 'long' ? long : ['test/**/*.test.ts'],
    exclude: set === 'quick' ? long : [],
    // Stress and property tests share few cores with the engine's own threads.
    testTimeout: limit,
    hookTimeout: limit,
    // Processes, not threads: a crash in native code then takes one test file down and names it.
    pool: 'forks',
    // By default one core is left free, which of two is half. And some files wait, for servers and processes: one more.
    maxWorkers: Math.max(3, availableParallelism()),
  },
});
