// Numbers -> the order that sorts them, ties first seen. The native sort of a typed array is many times as fast as one
// with a comparator, but it sorts numbers, not indices: so the leading bits of each number and its index share a 64-bit
// integer.
import { endianness } from 'node:os';

/**
 * @param keys finite or infinite, not NaN; −0 and 0 are equal
 * @returns indices of `keys`, by ascending or descending key; equal keys by ascending index either way
 */
export function stableOrder(keys: Float64Array, direction: 'ascending' | 'descending'): Uint32Array {
  const count = keys.length;
  const sign = direction === 'ascending' ? 1 : -1;
  const top = endianness() === 'LE' ? 1 : 0;
  const low = 1 - top;
  const packed = new BigUint64Array(count);
  const halves = new Uint32Array(packed.buffer);
  const number = new Float64Array(1);
  const words = new Uint32Array(number.buffer);
  for (let at = 0; at < count; at++) {
    // Adding 0 makes 0 of −0.
    number[0] = sign * (keys[at] as number) + 0;
    const head = words[top] as number;
    // As unsigned integers these order as the numbers do: negative ones are turned over, the others put above them.
    halves[2 * at + top] = head >>> 31 === 1 ? ~head : head ^ 0x80000000;
    halves[2 * at + low] = at;
  }
  packed.sort();
  const order = new Uint32Array(count);
  let begin = 0;
  let isSettled = true;
  for (let at = 0; at < count; at++) {
    const index = halves[2 * at + low] as number;
    order[at] = index;
    if (at > begin && halves[2 * at + top] === halves[2 * begin + top]) {
      // The same leading bits, and by index so far: right unless the other bits differ.
      if (keys[index] !== keys[order[at - 1] as number]) isSettled = false;
      continue;
    }
    if (!isSettled) sortRun(order, begin, at, keys, sign);
    begin = at;
    isSettled = true;
  }
  if (!isSettled) sortRun(order, begin, count, keys, sign);
  return order;
}

/** Runs up to this long are sorted by insertion. */
const SHORT_RUN = 12;

/** Sorts order[begin, end), which is by index, by key. */
function sortRun(order: Uint32Array, begin: number, end: number, keys: Float64Array, sign: number): void {
  if (end - begin > SHORT_RUN) {
    order.subarray(begin, end).sort((a, b) => sign * ((keys[a] as number) - (keys[b] as number)) || a - b);
    return;
  }
  for (let at = begin + 1; at < end; at++) {
    const index = order[at] as number;
    const key = sign * (keys[index] as number);
    let place = at;
    while (place > begin && sign * (keys[order[place - 1] as number] as number) > key) {
      order[place] = order[place - 1] as number;
      place--;
    }
    order[place] = index;
  }
}
