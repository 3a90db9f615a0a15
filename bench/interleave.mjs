// Tasks -> their times, taken in turns: what the machine does to one in a slow moment, it does to the others too.
import { Bench } from 'tinybench';
import { summary } from './statistics.mjs';

/**
 * @typedef {object} Task
 * @property {string} name
 * @property {() => Promise<number | undefined> | number | undefined} run  a number: seconds that the task measured itself
 */

/**
 * @param {readonly Task[]} tasks
 * @param {{ rounds: number, slice: number }} effort  slice: seconds of each task in each round; one call at least
 * @returns {Promise<Map<string, ReturnType<typeof summary>>>}
 */
export async function interleave(tasks, { rounds, slice }) {
  const samples = new Map(tasks.map(({ name }) => [name, []]));
  for (const { run } of tasks) await run(); // pages, caches, the compiler
  for (let round = 0; round < rounds; round++) {
    const bench = new Bench({ time: slice * 1000, iterations: 1, warmup: false, retainSamples: true, throws: true });
    for (const { name, run } of tasks) {
      bench.add(
        name,
        async () => {
          const from = performance.now();
          const seconds = await run();
          const took = performance.now() - from;
          return { overriddenDuration: seconds === undefined ? took : seconds * 1000, overriddenIterationCost: took };
        },
        { async: true },
      );
    }
    await bench.run();
    for (const task of bench.tasks) {
      samples.get(task.name).push(task.result.latency.samples.map((milliseconds) => milliseconds / 1000));
    }
  }
  return new Map([...samples].map(([name, all]) => [name, summary(all)]));
}
