// The peer that a Node user would pick: onnxruntime-node, if it is installed. It is not a dependency, because its install
// script downloads on some platforms; without that script it brings the CPU's binaries itself:
//   npm install --no-save --ignore-scripts onnxruntime-node
// COLLAPSAR_ONNXRUNTIME names another folder to find it from.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { onnxModel } from './onnx-model.mjs';

/** The module and its version, or why there is none. */
export async function loadOnnxRuntime() {
  const folder = process.env.COLLAPSAR_ONNXRUNTIME;
  const load = createRequire(folder ? join(folder, 'from.cjs') : import.meta.url);
  try {
    const runtime = load('onnxruntime-node');
    return { runtime, version: runtime.env.versions.node ?? runtime.env.versions.common };
  } catch (error) {
    const absent = error.code === 'MODULE_NOT_FOUND';
    return { problem: absent ? 'onnxruntime-node is not installed' : `onnxruntime-node: ${error.message}` };
  }
}

const matrix = (type) => ({ name: 'x', type, axes: 2 });
const reduceLogSumExp = {
  operator: 'ReduceLogSumExp',
  inputs: ['x'],
  outputs: ['logsumexp'],
  attributes: { axes: [1], keepdims: 0 },
};
const argMax = { operator: 'ArgMax', inputs: ['x'], outputs: ['argmax'], attributes: { axis: 1, keepdims: 0 } };

/** ReduceLogSumExp and ArgMax each alone, and with the entropy and the target's log-prob by way of LogSoftmax. */
function graphs(type) {
  const logsumexp = { name: 'logsumexp', type, axes: 1 };
  const argmax = { name: 'argmax', type: 'int64', axes: 1 };
  const column = { name: 'targetLogprob', type, axes: 2 };
  return {
    logsumexp: onnxModel({ nodes: [reduceLogSumExp], inputs: [matrix(type)], outputs: [logsumexp] }),
    argmax: onnxModel({ nodes: [argMax], inputs: [matrix(type)], outputs: [argmax] }),
    all: onnxModel({
      nodes: [
        reduceLogSumExp,
        argMax,
        { operator: 'LogSoftmax', inputs: ['x'], outputs: ['l'], attributes: { axis: 1 } },
        { operator: 'GatherElements', inputs: ['l', 'target'], outputs: ['targetLogprob'], attributes: { axis: 1 } },
        { operator: 'Exp', inputs: ['l'], outputs: ['p'] },
        { operator: 'Mul', inputs: ['p', 'l'], outputs: ['pl'] },
        { operator: 'ReduceSum', inputs: ['pl', 'axis'], outputs: ['negative'], attributes: { keepdims: 0 } },
        { operator: 'Neg', inputs: ['negative'], outputs: ['entropy'] },
      ],
      constants: [{ name: 'axis', values: [1] }],
      inputs: [matrix(type), { name: 'target', type: 'int64', axes: 2 }],
      outputs: [logsumexp, argmax, column, { name: 'entropy', type, axes: 1 }],
    }),
  };
}

const results = {
  logitStats: (given) => given,
  // A marginal is the log-sum-exp less the logarithm of the columns.
  scoreStats: ({ logsumexp, argmax }, columns) => ({
    ...(logsumexp && { marginalSeq: logsumexp.map((value) => value - Math.log(columns)) }),
    ...(argmax && { argmax }),
  }),
};

/**
 * @param runtime  the module
 * @param {import('../suite/cases.mjs').Case} given
 * @param {import('../suite/data.mjs').Input} input
 * @returns {Promise<import('./serve.mjs').Peer[]>}
 */
export async function onnxRuntimePeers(runtime, { operation, dtype, out }, { tensor, targets }, threadCounts) {
  if (results[operation] === undefined || (dtype !== 'float32' && dtype !== 'float64')) return [];
  const wanted = operation === 'scoreStats' ? ['logsumexp', 'argmax'] : [out?.[0] ?? 'all'];
  const names = { logsumexp: 'ReduceLogSumExp', argmax: 'ArgMax', all: 'LogSoftmax, …' };
  const models = graphs(dtype);
  const peers = [];
  for (const graph of wanted) {
    for (const threads of threadCounts) {
      const session = await runtime.InferenceSession.create(models[graph], {
        intraOpNumThreads: threads,
        interOpNumThreads: 1,
      });
      const feeds = { x: new runtime.Tensor(dtype, tensor.data, tensor.shape) };
      if (graph === 'all') {
        feeds.target = new runtime.Tensor('int64', BigInt64Array.from(targets, BigInt), [targets.length, 1]);
      }
      peers.push({
        name: `onnxruntime ${names[graph]}`,
        threads,
        run: async () => {
          const found = await session.run(feeds);
          const arrays = Object.entries(found).map(([name, { data }]) => [name, Float64Array.from(data, Number)]);
          return results[operation](Object.fromEntries(arrays), tensor.shape[1]);
        },
        close: () => session.release(),
        tolerance: 1e-3,
      });
    }
  }
  return peers;
}
