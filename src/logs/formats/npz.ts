// A step as np.savez writes it: a zip file of .npy arrays named like the tensors of a step. Stored members are read
// where they lie; deflated ones (np.savez_compressed) are unpacked as they are read. Arrays of one value are metadata.

import { createInflateRaw } from 'node:zlib';
import { FileError } from '../../checks/errors.js';
import { printable } from '../../checks/words.js';
import {
  isMetadata,
  isTensorName,
  type NamedArray,
  readArray,
  readMetadata,
  tensorEntry,
  withStepNumber,
} from '../steps/array-step.js';
import { headerDigest } from '../steps/step-digest.js';
import { hasNothingOfStep, NoStepError } from '../steps/step-layout.js';
import type { ByteSource, ReadOptions } from '../stores/byte-source.js';
import { ConcatenatedSource } from '../stores/concatenated-source.js';
import { openBytes } from '../stores/store.js';
import type { StepContainer } from './container.js';
import { DecompressedSource } from './decompressed-source.js';
import { checkDecompressed, MOST_DEFLATED } from './decompression-limits.js';
import type { TensorEntry } from './safetensors.js';
import { readZipDirectory, type ZipMember } from './zip-directory.js';

/** Metadata that say how the step is read, or whose it is. */
const USED_METADATA: ReadonlySet<string> = new Set(['step', 'run', 'dtype']);

/** Members of other names are looked into up to this size: metadata are small. */
const MAX_METADATA_BYTES = 256 * 2 ** 10;
/** All of them together, unpacked: files of a folder are looked at side by side. */
const MAX_ALL_METADATA_BYTES = 8 * 2 ** 20;

/** @throws FileError unless it is a zip file of arrays that make a step */
export async function openNpz(path: string, { signal }: ReadOptions): Promise<StepContainer> {
  const base = await openBytes(path, { signal });
  let opened = base;
  try {
    const { members, directory } = await readZipDirectory(base, { signal });
    const wanted = [...members.values()].filter(isWanted);
    const { source, begins } = join(base, wanted);
    opened = source;
    const arrays = new Map<string, NamedArray>();
    const metadata = new Map<string, string>();
    let metadataBytes = 0;
    for (const member of wanted) {
      const name = arrayName(member);
      try {
        const array = await readArray(source, name, begins.get(member) as number, member.bytes, { signal });
        if (isMetadata(name, array)) {
          metadataBytes += array.header.dataBytes;
          if (metadataBytes > MAX_ALL_METADATA_BYTES) break;
          metadata.set(name, await readMetadata(source, name, array, { signal }));
        }
        arrays.set(name, array);
      } catch (error) {
        // What no figure depends on may be anything, such as pickled objects.
        if (!(error instanceof FileError) || isTensorName(name) || USED_METADATA.has(name)) throw error;
      }
    }
    if (metadataBytes > MAX_ALL_METADATA_BYTES) {
      const problem = `its arrays of one value, which are metadata, have more than ${MAX_ALL_METADATA_BYTES} bytes: save texts in a file of their own`;
      throw new FileError({ path }, problem);
    }
    const tensors = new Map<string, TensorEntry>();
    for (const [name, array] of arrays) {
      if (isTensorName(name) && !metadata.has(name)) tensors.set(name, tensorEntry(source, name, array, metadata));
    }
    if (hasNothingOfStep(tensors, metadata)) {
      const found = [...members.keys()].slice(0, 8).map((name) => printable(name));
      const problem = `none of its arrays is a tensor of a step, and none is the number of one: there are ${found.join(', ') || 'none'}`;
      throw new NoStepError({ path }, problem);
    }
    const bytes = [...members.values()].reduce((total, member) => total + member.bytes, 0);
    if (wanted.some(isDeflated)) checkDecompressed(path, tensors, bytes, base.bytes, MOST_DEFLATED);
    return {
      source,
      tensors,
      metadata: withStepNumber(path, metadata),
      bytes,
      storedBytes: base.bytes,
      digest: headerDigest(directory, ...[...arrays.values()].map(({ raw }) => raw)),
      reopen: async () => join(await openBytes(path, { expected: base.revision }), wanted).source,
    };
  } catch (error) {
    await opened.close();
    throw error;
  }
}

const ENDING = '.npy';

function arrayName({ name }: ZipMember): string {
  return name.slice(0, -ENDING.length);
}

function isWanted(member: ZipMember): boolean {
  return member.name.endsWith(ENDING) && (isTensorName(arrayName(member)) || member.bytes <= MAX_METADATA_BYTES);
}

function isDeflated({ method }: ZipMember): boolean {
  return method === 'deflated';
}

/** A source in which each member's unpacked bytes have a place: stored ones theirs in the file. */
function join(base: ByteSource, members: readonly ZipMember[]): { source: ByteSource; begins: Map<ZipMember, number> } {
  const begins = new Map<ZipMember, number>();
  const deflated = members.filter(isDeflated);
  for (const member of members) if (!isDeflated(member)) begins.set(member, member.begin);
  if (deflated.length === 0) return { source: base, begins };
  const source = new ConcatenatedSource(base);
  for (const member of deflated) {
    const { begin, packedBytes, bytes, crc } = member;
    const decompress = () => createInflateRaw({ chunkSize: 256 * 2 ** 10 });
    const packed = { source: base, begin, packedBytes, decompress, format: 'deflate', crc, owned: false };
    const decompressed = () => new DecompressedSource(packed, bytes).promise(bytes);
    // Thousands of members that are read once hold no decompressor each.
    const part = isTensorName(arrayName(member)) ? { source: decompressed() } : { open: async () => decompressed() };
    begins.set(member, source.add({ path: base.path, bytes, ...part }));
  }
  return { source, begins };
}
