// A case -> the peers that compute the same or a part of it: found, checked against our results, ready to be timed.

import { median } from '../suite/statistics.mjs';
import { compareResults } from './checks.mjs';
import { onnxRuntimePeers } from './onnxruntime.mjs';
import { plainLoopPeers } from './plain-loops.mjs';

/**
 * @typedef {object} Peer
 * @property {string} name
 * @property {number} threads
 * @property {() => unknown} run    gives its results as arrays by name, or, timed elsewhere, seconds
 * @property {number} tolerance     how far its results may be from ours
 * @property {() => unknown} [close]
 *
 * @typedef {object} CheckedPeer
 * @property {string} name
 * @property {number} threads
 * @property {Record<string, number>} errors   largest difference from our results, by name
 * @property {(seconds: number) => Promise<number> | undefined} time  seconds of a call, a median over about so long
 * @property {() => unknown} close
 */

/** Calls for about so many seconds, at least once; the median call. */
async function timeCalls(run, seconds) {
  const samples = [];
  const until = performance.now() + seconds * 1000;
  do {
    const from = performance.now();
    await run();
    samples.push((performance.now() - from) / 1000);
  } while (performance.now() < until);
  return median(samples);
}

/**
 * @param {import('../suite/cases.mjs').Case} given
 * @param {import('../suite/data.mjs').Input} input
 * @param {Record<string, Float64Array>} ours
 * @param {{ onnx?: object, python?: import('./python.mjs').Python, threadCounts: number[] }} found
 * @returns {Promise<{ peers: CheckedPeer[], failed: string[] }>}
 */
export async function checkedPeers(given, input, ours, { onnx, python, threadCounts }) {
  const peers = [];
  const failed = [];
  const here = plainLoopPeers(given, input);
  if (onnx !== undefined) {
    try {
      here.push(...(await onnxRuntimePeers(onnx, given, input, threadCounts)));
    } catch (error) {
      failed.push(`onnxruntime: ${error.message}`);
    }
  }
  for (const { name, threads, run, tolerance, close = () => undefined } of here) {
    const { errors, problem } = compareResults(ours, await run(), input.tensor, tolerance);
    if (problem === undefined) {
      peers.push({ name, threads, errors, time: (seconds) => timeCalls(run, seconds), close });
    } else {
      failed.push(`${name}: ${problem}`);
      await close();
    }
  }
  if (python !== undefined) {
    let inPython = [];
    try {
      inPython = await python.load(given, input, ours, threadCounts);
    } catch (error) {
      failed.push(`peers in Python: ${error.message}`);
    }
    for (const { name, threads, errors, problem } of inPython) {
      if (problem) failed.push(`${name}: ${problem}`);
      else {
        peers.push({
          name,
          threads,
          errors,
          time: (seconds) => python.time(name, threads, seconds),
          close: () => undefined,
        });
      }
    }
  }
  return { peers, failed };
}
