// Times tasks in turns: what the machine does to one in a slow moment, it does to the others too.
import { Bench } from 'tinybench';

/**
 * @typedef {object} Task
 * @property {string} name
 * @property {() => Promise<number | void> | number} run  gives seconds if the task measures itself
 * @property {boolean} [warm]  it has run before: no call of its own before the first round
 *
 * @typedef {object} Effort
 * @property {number} rounds
 * @property {number} leastRounds  are done even if the time is over
 * @property {number} slice        seconds of each task in each round; one call at least
 * @property {number} slowSeconds  a task whose call takes longer ...
 * @property {number} slowRounds   ... is timed in this many rounds only
 */

/**
 * @param {readonly Task[]} tasks
 * @param {Effort} effort
 * @param {import('./budget.mjs').TimeBudget} time  further rounds are left out when they would not fit
 * @returns {Promise<Map<string, number[][]>>} by name: the seconds of each call, by round
 */
export async function interleave(tasks, { rounds, leastRounds, slice, slowSeconds, slowRounds }, time) {
  /** @type {Map<string, number[][]>} */
  const samples = new Map(tasks.map(({ name }) => [name, []]));
  const isDue = ({ name }, round) => round < slowRounds || (samples.get(name)?.[0]?.[0] ?? 0) <= slowSeconds;
  for (const { run, warm } of tasks) if (!warm) await run(); // pages, caches, the compiler
  let took = 0; // seconds of a round
  for (let round = 0; round < rounds; round++) {
    if (round >= leastRounds && time.left() < took) break;
    const before = time.left();
    const bench = new Bench({ time: slice * 1000, iterations: 1, warmup: false, retainSamples: true, throws: true });
    for (const { name, run } of tasks.filter((task) => isDue(task, round))) {
      bench.add(
        name,
        async () => {
          const from = performance.now();
          const seconds = await run();
          const milliseconds = performance.now() - from;
          return {
            overriddenDuration: seconds === undefined ? milliseconds : seconds * 1000,
            overriddenIterationCost: milliseconds,
          };
        },
        { async: true },
      );
    }
    await bench.run();
    for (const { name, result } of bench.tasks) {
      if (result.state !== 'completed') throw new Error(`${name}: ${result.state}`);
      samples.get(name)?.push((result.latency.samples ?? []).map((milliseconds) => milliseconds / 1000));
    }
    took = before - time.left();
  }
  return samples;
}
