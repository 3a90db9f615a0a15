// What native code still holds after a garbage collection, for leak tests.
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { loadAddon } from '../../src/engine/addon.js';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

/** Collects until the count of live blocks stands still: Node frees external memory some turns after the collection. */
export async function collected(): Promise<ReturnType<ReturnType<typeof loadAddon>['live']>> {
  const addon = loadAddon();
  let previous = Number.POSITIVE_INFINITY;
  for (let turn = 0; turn < 20; turn++) {
    gc();
    await sleep(10);
    const { blocks } = addon.live();
    if (blocks === previous) break;
    previous = blocks;
  }
  return addon.live();
}
