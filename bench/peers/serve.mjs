// Peers in Node, in a process of their own: plain loops or onnxruntime-node, checked and timed as serve.py does with
// those in Python, by the same protocol.
//
//   node bench/peers/serve.mjs 'plain loop' | onnxruntime
import { closeSync, openSync, readSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { median } from '../suite/statistics.mjs';
import { compareResults } from './checks.mjs';
import { loadOnnxRuntime, onnxRuntimePeers } from './onnxruntime.mjs';
import { plainLoopPeers } from './plain-loops.mjs';

/**
 * @typedef {Record<string, ArrayLike<number>>} Results  arrays by name
 *
 * @typedef {object} Peer
 * @property {string} name
 * @property {number} threads
 * @property {() => Results | Promise<Results>} run
 * @property {number} tolerance     how far its results may be from ours
 * @property {() => unknown} [close]
 */

const arrayTypes = { float64: Float64Array, float32: Float32Array, uint16: Uint16Array, int32: Int32Array };

function readArrays(path, places) {
  const file = openSync(path, 'r');
  try {
    const read = ([name, { type, offset, length }]) => {
      const array = new arrayTypes[type](length);
      const bytes = new Uint8Array(array.buffer);
      for (let at = 0; at < bytes.length; ) {
        const count = readSync(file, bytes, at, Math.min(bytes.length - at, 2 ** 28), offset + at);
        if (count === 0) throw new Error(`${path} ends within ${name}`);
        at += count;
      }
      return [name, array];
    };
    return Object.fromEntries(Object.entries(places).map(read));
  } finally {
    closeSync(file);
  }
}

/**
 * @typedef {object} Library
 * @property {string | undefined} [problem]  why it is not here
 * @property {Record<string, string>} versions
 * @property {(given: any, input: any, threadCounts: number[]) => Peer[] | Promise<Peer[]>} peers
 *
 * @returns {Promise<Library>}
 */
async function openLibrary(name) {
  if (name === 'plain loop') return { versions: {}, peers: plainLoopPeers };
  if (name !== 'onnxruntime') throw new Error(`no library ${name}`);
  const { runtime, version, problem } = await loadOnnxRuntime();
  return {
    problem,
    versions: { 'onnxruntime-node': version },
    peers: (given, input, threadCounts) => onnxRuntimePeers(runtime, given, input, threadCounts),
  };
}

const library = await openLibrary(process.argv[2]);
/** @type {{ peers: Peer[], tensor: { data: ArrayLike<number>, shape: number[] }, ours: Results }} */
const nothing = { peers: [], tensor: { data: [], shape: [] }, ours: {} };
let loaded = nothing;

const keyOf = ({ name, threads }) => `${name} ${threads}`;
function find(request) {
  const peer = loaded.peers.find((one) => keyOf(one) === keyOf(request));
  if (peer === undefined) throw new Error(`no peer ${keyOf(request)}`);
  return peer;
}

const handlers = {
  versions() {
    if (library.problem !== undefined) throw new Error(library.problem);
    return { versions: library.versions };
  },
  async unload() {
    for (const { close } of loaded.peers) await close?.();
    loaded = nothing;
    globalThis.gc?.();
    return {};
  },
  async load({ path, arrays: places, operation, dtype, shape, out, threadCounts }) {
    await handlers.unload(); // or both would be held at once
    const { tensor: data, lengths, own, targets, ...results } = readArrays(path, places);
    const ours = Object.entries(results).map(([name, array]) => [name.replace(/^result /, ''), array]);
    const tensor = { data, dtype, shape };
    const peers = await library.peers({ operation, dtype, out }, { tensor, lengths, own, targets }, threadCounts);
    loaded = { peers, tensor, ours: Object.fromEntries(ours) };
    return { peers: peers.map(({ name, threads }) => ({ name, threads })) };
  },
  async check(request) {
    const { run, tolerance } = find(request);
    const { errors, problem } = compareResults(loaded.ours, await run(), loaded.tensor, tolerance);
    return { errors, problem: problem ?? null };
  },
  async time(request) {
    const { run } = find(request);
    const samples = [];
    const until = performance.now() + request.seconds * 1000;
    do {
      const from = performance.now();
      await run();
      samples.push((performance.now() - from) / 1000);
    } while (performance.now() < until);
    return { seconds: median(samples), samples: samples.length };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    answer = await handlers[request.do](request);
  } catch (error) {
    answer = { error: error.message }; // reported to the suite, which continues without this peer
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
