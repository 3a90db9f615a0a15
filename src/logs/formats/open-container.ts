// A path in, the tensors and metadata of a step out, from any file or store: the one place that says which
// ending is opened by what. What reads steps asks a container for bytes at the positions that its entries name.

import { checkPath } from '../../checks/argument-checks.js';
import { headerDigest } from '../steps/step-digest.js';
import { openBytes } from '../stores/store.js';
import { openGzip, openZstd } from './compressed.js';
import type { OpenContainer } from './container.js';
import { openNpy } from './npy.js';
import { headerLength, LENGTH_BYTES, parseHeader } from './safetensors.js';

/** Opens the step at `path`: by its ending, else as safetensors. @throws FileError when it cannot be used */
export const openContainer: OpenContainer = async (path, options) => {
  checkPath(path, 'path');
  const kind = STEP_KINDS.find(({ ending }) => path.endsWith(ending));
  return (kind?.open ?? openSafetensors)(path, options);
};

/** One read brings the header of any usual step file. */
const FIRST_READ_BYTES = 16 * 2 ** 10;

const openSafetensors: OpenContainer = async (path, { signal }) => {
  const source = await openBytes(path, { signal });
  try {
    const first = Buffer.allocUnsafe(Math.min(FIRST_READ_BYTES, source.bytes));
    await source.read(first, 0, { signal });
    const length = headerLength(path, first, source.bytes);
    let json = first.subarray(LENGTH_BYTES, LENGTH_BYTES + length);
    if (json.length < length) {
      json = Buffer.allocUnsafe(length);
      await source.read(json, LENGTH_BYTES, { signal });
    }
    const { tensors, metadata } = parseHeader(path, json, source.bytes);
    const reopen = () => openBytes(path, { expected: source.revision });
    return {
      source,
      tensors,
      metadata,
      bytes: source.bytes,
      storedBytes: source.bytes,
      digest: headerDigest(json),
      headerAt: LENGTH_BYTES,
      first,
      reopen,
    };
  } catch (error) {
    await source.close();
    throw error;
  }
};

/** Its library of zip is loaded only for it. */
const openNpz: OpenContainer = async (path, options) => (await import('./npz.js')).openNpz(path, options);

/** What a search takes for a step file, and what opens it. */
export const STEP_KINDS: readonly { readonly ending: string; readonly open: OpenContainer }[] = [
  { ending: '.safetensors', open: openSafetensors },
  { ending: '.safetensors.gz', open: openGzip },
  { ending: '.safetensors.zst', open: openZstd },
  { ending: '.npz', open: openNpz },
  { ending: '.npy', open: openNpy },
];
