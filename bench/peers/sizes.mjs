// How large an input a peer can be measured with, in the time and the memory that are left: its probe says.

import { showSeconds } from '../suite/report.mjs';

/** Each size has a quarter of the rows of the one before; 0 is the whole case. */
export const sizeCount = 4;
export const partsOf = (size) => 4 ** size;
/** Peers are tried on a sixteenth: enough to see temporaries, little enough for the slowest. */
export const probeSize = 2;

/** A call that takes longer leaves no time for rounds. */
export const slowestCall = 2;
/** What is held beyond the forecast: allocators round up, and arenas double. */
const margin = 1.25;
/** Bytes of temporaries for each byte of input, where the system does not tell. */
const assumedPassing = 8;

/**
 * @typedef {object} Probed  a peer that was tried on a part of its case
 * @property {string} name
 * @property {number} threads
 * @property {number} seconds  of a call
 * @property {number} [kept]     bytes that a call leaves held
 * @property {number} [passing]  bytes that it holds beyond these while it runs
 *
 * @typedef {object} Room
 * @property {number} callSeconds             longest call
 * @property {number[]} bytes                 of the input, by size
 * @property {(size: number) => number} free  bytes that peers may hold at a size, beside their input
 */

/**
 * The largest size at which each peer of a library keeps to both budgets. The smallest is slow for none: the probe,
 * which was larger, was affordable. Peers of one process add up: what calls leave, and the most that one of them takes.
 * @param {Probed[]} probed
 * @param {Room} room
 * @returns {{ peer: Probed, size: number | undefined, why: string }[]} without a size there is no memory for any
 */
export function chooseSizes(probed, { callSeconds, bytes, free }) {
  const held = Array.from({ length: sizeCount }, () => ({ kept: 0, passing: 0 }));
  return probed.map((peer) => {
    let why = '';
    for (let size = 0; size < sizeCount; size++) {
      const scale = bytes[size] / bytes[probeSize];
      const seconds = peer.seconds * scale;
      const kept = held[size].kept + (peer.kept ?? 0) * scale;
      const passing = Math.max(held[size].passing, (peer.passing ?? assumedPassing * bytes[probeSize]) * scale);
      const needed = margin * (kept + passing);
      const slow = seconds > callSeconds && size < sizeCount - 1;
      if (!slow && needed <= free(size)) {
        held[size] = { kept, passing };
        return { peer, size, why };
      }
      why ||= slow
        ? `about ${showSeconds(seconds)} a call, and ${showSeconds(callSeconds)} are allowed`
        : `about ${gibibytes(needed)} GiB of temporaries, and ${gibibytes(free(size))} GiB are left`;
    }
    return { peer, size: undefined, why };
  });
}

const gibibytes = (bytes) => (Math.max(0, bytes) / 2 ** 30).toFixed(2);
