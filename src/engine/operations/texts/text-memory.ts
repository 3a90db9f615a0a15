// Memory that texts are put into for native code: taken again by the next step, so that no new pages are cleared for
// it, nor the collector called to find the old ones.
import { loadAddon } from '../../addon.js';
import { noteEngineMemory } from '../../memory.js';

/** What is smaller is not worth keeping; larger sizes are rounded up to it, so that what one step leaves fits the next. */
const ROOM = 2 ** 20;
/** Kept between steps, all together. */
const MOST_SPARE = 2 ** 25;

const spare: Uint8Array[] = [];
let spareBytes = 0;

/** What a job was given, to be taken back once it has ended. */
export class TextMemory {
  readonly #taken: Uint8Array[] = [];

  /** So many bytes, in which anything may stand. */
  take(bytes: number): Uint8Array {
    if (bytes < ROOM) return new Uint8Array(bytes);
    const at = spare.findIndex(({ byteLength }) => byteLength >= bytes && byteLength <= 2 * bytes);
    const [kept] = at < 0 ? [] : spare.splice(at, 1);
    if (kept !== undefined) spareBytes -= kept.byteLength;
    const memory = kept ?? noteEngineMemory(new Uint8Array(loadAddon().alloc(Math.ceil(bytes / ROOM) * ROOM)));
    this.#taken.push(memory);
    return memory.subarray(0, bytes);
  }

  /** The job has ended. */
  release(): void {
    for (const memory of this.#taken.splice(0)) {
      spare.push(memory);
      spareBytes += memory.byteLength;
    }
    while (spareBytes > MOST_SPARE) spareBytes -= (spare.shift() as Uint8Array).byteLength;
  }
}
