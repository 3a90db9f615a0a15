// The peer that needs nothing: loops over typed arrays, as one would write them in TypeScript; float32 and float64.
//
// Not naive in what they compute: maximum first, so that nothing overflows, and float64 sums.

function logitRow(data, from, columns, target, entropyToo) {
  let max = Number.NEGATIVE_INFINITY;
  let argmax = 0;
  for (let c = 0; c < columns; c++) {
    const x = data[from + c];
    if (x > max) {
      max = x;
      argmax = c;
    }
  }
  let sum = 0;
  let weighted = 0;
  for (let c = 0; c < columns; c++) {
    const d = data[from + c] - max;
    const e = Math.exp(d);
    sum += e;
    if (entropyToo && e > 0) weighted += e * d;
  }
  const own = data[from + target];
  let above = 0;
  let equal = 0;
  if (entropyToo) {
    for (let c = 0; c < columns; c++) {
      if (data[from + c] > own) above++;
      else if (data[from + c] === own) equal++;
    }
  }
  const logsumexp = max + Math.log(sum);
  return { logsumexp, entropy: Math.log(sum) - weighted / sum, target: own - logsumexp, argmax, above, equal };
}

function logitStats({ tensor, targets }, out) {
  const [rows, columns] = tensor.shape;
  if (out?.[0] === 'argmax') {
    const argmax = new Float64Array(rows);
    for (let r = 0; r < rows; r++) {
      let best = 0;
      for (let c = 1; c < columns; c++) if (tensor.data[r * columns + c] > tensor.data[r * columns + best]) best = c;
      argmax[r] = best;
    }
    return { argmax };
  }
  const lse = new Float64Array(rows);
  if (out?.[0] === 'logsumexp') {
    for (let r = 0; r < rows; r++) lse[r] = logitRow(tensor.data, r * columns, columns, 0, false).logsumexp;
    return { logsumexp: lse };
  }
  const results = { logsumexp: lse };
  for (const name of ['entropy', 'targetLogprob', 'argmax', 'rankAbove', 'rankEqual']) {
    results[name] = new Float64Array(rows);
  }
  for (let r = 0; r < rows; r++) {
    const row = logitRow(tensor.data, r * columns, columns, targets[r], true);
    lse[r] = row.logsumexp;
    results.entropy[r] = row.entropy;
    results.targetLogprob[r] = row.target;
    results.argmax[r] = row.argmax;
    results.rankAbove[r] = row.above;
    results.rankEqual[r] = row.equal;
  }
  return results;
}

function sumTokens({ tensor, lengths }) {
  const [prompts, rows, tokens] = tensor.shape;
  const sums = new Float64Array(rows * prompts);
  for (let p = 0; p < prompts; p++) {
    for (let r = 0; r < rows; r++) {
      const from = (p * rows + r) * tokens;
      let sum = 0;
      for (let t = 0; t < lengths[r]; t++) sum += tensor.data[from + t];
      sums[r * prompts + p] = sum;
    }
  }
  return { sums };
}

function scoreStats({ tensor, lengths, own }) {
  const [rows, columns] = tensor.shape;
  const names = ['matchedSeq', 'marginalSeq', 'marginalToken', 'posteriorEntropy', 'argmax', 'rankAbove'];
  const results = Object.fromEntries(names.map((name) => [name, new Float64Array(rows)]));
  const { data } = tensor;
  for (let r = 0; r < rows; r++) {
    const from = r * columns;
    const row = logitRow(data, from, columns, own[r], true);
    const perToken = 1 / Math.max(lengths[r], 1);
    let sum = 0;
    const max = data[from + row.argmax] * perToken;
    for (let c = 0; c < columns; c++) sum += Math.exp(data[from + c] * perToken - max);
    results.matchedSeq[r] = data[from + own[r]];
    results.marginalSeq[r] = row.logsumexp - Math.log(columns);
    results.marginalToken[r] = max + Math.log(sum) - Math.log(columns);
    results.posteriorEntropy[r] = row.entropy;
    results.argmax[r] = row.argmax;
    results.rankAbove[r] = row.above;
  }
  return results;
}

/** @returns {import('./serve.mjs').Peer[]} */
export function plainLoopPeers({ operation, dtype, out, packed }, input) {
  if (packed || (dtype !== 'float32' && dtype !== 'float64')) return [];
  const run = { logitStats, sumTokens, scoreStats }[operation];
  return run === undefined ? [] : [{ name: 'plain loop', threads: 1, run: () => run(input, out), tolerance: 1e-5 }];
}
