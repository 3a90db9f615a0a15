// A peer's results beside ours: what is not the same must not be compared in speed.

const places = new Set(['argmax']);

/**
 * @param {Record<string, ArrayLike<number>>} ours
 * @param {Record<string, ArrayLike<number>>} theirs
 * @param {{ data: ArrayLike<number>, shape: readonly number[] }} tensor  the input: argmax is compared by the value
 *   that stands there
 * @returns {{ errors: Record<string, number>, problem: string | undefined }} the largest difference, of large values
 *   relative to them, by name; a problem if one is over the tolerance or if there is nothing to compare
 */
export function compareResults(ours, theirs, tensor, tolerance) {
  /** @type {Record<string, number>} */
  const errors = {};
  const problems = [];
  for (const [name, found] of Object.entries(theirs)) {
    const expected = ours[name];
    if (expected === undefined) continue;
    if (expected.length !== found.length) {
      problems.push(`${name} has ${found.length} entries, ours ${expected.length}`);
      continue;
    }
    const compared = (values, at) =>
      places.has(name)
        ? tensor.data[Math.floor((at * tensor.shape[0]) / values.length) * tensor.shape[1] + values[at]]
        : values[at];
    let worst = 0;
    for (let at = 0; at < expected.length; at++) {
      const [a, b] = [compared(expected, at), compared(found, at)];
      const error = Object.is(a, b) || a === b ? 0 : Math.abs(a - b) / Math.max(1, Math.abs(a));
      if (error > worst || Number.isNaN(error)) worst = error; // and a NaN stays: nothing is above it
    }
    errors[name] = worst;
    const allowed = places.has(name) || name.startsWith('rank') || name === 'hitRank' ? 0 : tolerance;
    if (!(worst <= allowed)) problems.push(`${name} differs by ${worst}, allowed ${allowed}`);
  }
  if (Object.keys(errors).length === 0 && problems.length === 0) problems.push('it gives nothing that can be compared');
  return { errors, problem: problems.length > 0 ? problems.join('; ') : undefined };
}
