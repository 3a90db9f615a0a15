// Steps as numpy writes them, by hand-made bytes: what .npz and .npy give, and that every fault is named.
import { mkdir, readdir, rm, symlink, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FileError } from '../../src/checks/errors.js';
import { npyHeaderBytes, parseNpyHeader } from '../../src/logs/formats/npy-header.js';
import { readZipDirectory } from '../../src/logs/formats/zip-directory.js';
import { findSteps } from '../../src/logs/steps/read-steps.js';
import type { StepData } from '../../src/logs/steps/step-data.js';
import { readStepFile, readStepHeader } from '../../src/logs/steps/step-file.js';
import type { ByteSource } from '../../src/logs/stores/byte-source.js';
import { fileErrorOf, fileOf, fullStep, put, type RawTensor, smallStep } from '../support/logs-files.js';
import { npyDict, npyOf, npyTensor, npzMembers, zipOf } from '../support/numpy-files.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

const folder = temporaryDirectory();
let files = 0;

async function npz(bytes: Uint8Array): Promise<string> {
  return put(join(folder, `step_${files++}.npz`), bytes);
}

function everything(): Record<string, RawTensor> {
  const { note, ...tensors } = fullStep();
  return tensors;
}

/** All that a step says, without where it came from. */
async function contents(path: string, blockBytes = 1): Promise<unknown> {
  const { file: _, bytes: __, scores, ...data } = await readStepFile(path, { blockBytes });
  const blocks = [];
  if (scores.kind === 'logprobs') for await (const { logprobs } of scores.blocks()) blocks.push([...logprobs.data]);
  else blocks.push([...(await scores.read()).data]);
  return {
    ...data,
    metadata: { ...data.metadata },
    kind: scores.kind,
    dtype: scores.dtype,
    shape: scores.shape,
    blocks,
  };
}

async function drain(step: StepData): Promise<void> {
  if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
  for await (const _ of step.scores.blocks());
}

describe('.npz', () => {
  it.each([
    ['stored', {}],
    ['deflated', { deflate: true }],
    ['zip64', { zip64: true }],
    ['zip64, deflated, with a comment', { zip64: true, deflate: true, comment: 'x'.repeat(5000) }],
  ])('%s: what the safetensors file gives', async (_what, options) => {
    const metadata = { step: '120', run: 'grid', model: 'ø' };
    const expected = await contents(await put(join(folder, 'a.safetensors'), fileOf(everything(), metadata)));
    const path = await npz(zipOf(npzMembers(everything(), { ...metadata, step: 120 }), options));
    expect(await contents(path)).toEqual(expected);
    expect(await contents(path, 96)).toMatchObject({ step: 120, run: 'grid' });
  });

  it('metadata: whole numbers, text, floats that are whole; the step from the name; other members are passed over', async () => {
    const { step: _, ...members } = npzMembers(smallStep());
    const float = Buffer.alloc(8);
    float.writeDoubleLE(12);
    const named = { ...members, 'step.npy': npyOf(npyDict('<f8', []), float), 'readme.txt': Buffer.from('x') };
    expect((await readStepHeader(await npz(zipOf(named)))).step).toBe(12);
    const scalarFree = Object.fromEntries(Object.entries(members).filter(([name]) => name !== 'step.npy'));
    const path = await put(join(folder, 'iter-00044.npz'), zipOf(scalarFree));
    expect(await readStepHeader(path)).toMatchObject({ step: 44, metadata: { step: '44' } });
    for (const name of ['none.npz', 'rank1_step2.npz']) {
      const unclear = await put(join(folder, name), zipOf(scalarFree));
      expect((await fileErrorOf(readStepHeader(unclear))).message).toMatch(/no number|2 numbers/);
    }
  });

  it('passes over what is no tensor, whatever is in it: pickled objects, structures, dates, a damaged header', async () => {
    const pickled = npyOf(npyDict('|O', [1]), Buffer.from('\x80\x04]q\x00}a.', 'latin1'));
    const others = {
      'extra.npy': pickled,
      'objects.npy': npyOf(npyDict('|O', []), Buffer.from('\x80\x04N.', 'latin1')),
      'table.npy': npyOf("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", Buffer.alloc(4)),
      'when.npy': npyOf(npyDict('<M8[s]', []), Buffer.alloc(8)),
      'half.npy': npyOf(npyDict('<f2', []), Buffer.alloc(2)),
      'broken.npy': Buffer.from('\x93NUMPY'),
    };
    for (const deflate of [false, true]) {
      const expected = await contents(await npz(zipOf(npzMembers(smallStep()), { deflate })));
      expect(await contents(await npz(zipOf({ ...others, ...npzMembers(smallStep()) }, { deflate })))).toEqual(
        expected,
      );
    }
    // What the step is made of is not passed over.
    for (const name of ['lengths.npy', 'step.npy', 'run.npy']) {
      const path = await npz(zipOf({ ...npzMembers(smallStep()), [name]: pickled }));
      expect((await fileErrorOf(readStepHeader(path))).message).toContain('pickled Python objects');
    }
  });

  it('bfloat16 as raw elements of two bytes, or as uint16 that the metadata explain', async () => {
    const bits = Uint16Array.from({ length: 24 }, (_, i) => 0xbf80 + i);
    const scores = { dtype: 'BF16', shape: [2, 4, 3], data: bits };
    const raw = await readStepFile(await npz(zipOf(npzMembers({ ...smallStep(), cross_logprobs: scores }))));
    expect(raw.scores.dtype).toBe('bfloat16');
    const array = npyOf(npyDict('<u2', [2, 4, 3]), Buffer.from(bits.buffer));
    const members = { ...npzMembers(smallStep()), 'cross_logprobs.npy': array };
    const said = { ...members, ...npzMembers({}, { dtype: 'bfloat16' }) };
    expect((await readStepFile(await npz(zipOf(said)))).scores.dtype).toBe('bfloat16');
    const error = await fileErrorOf(readStepFile(await npz(zipOf(members))));
    expect(error).toMatchObject({ tensor: 'cross_logprobs' });
    expect(error.message).toContain('dtype = "bfloat16"');
  });

  it('text that is no Unicode is refused: signs in its place would make one name of several', async () => {
    const withRun = async (run: Buffer) => npz(zipOf({ ...npzMembers(smallStep()), 'run.npy': run }));
    const wide = (...codes: number[]) =>
      npyOf(npyDict(`<U${codes.length}`, [1]), Buffer.from(Uint32Array.from(codes).buffer));
    expect((await readStepHeader(await withRun(wide(0x72, 0x1f600, 0xe000, 0)))).run).toBe('r\u{1f600}\ue000');
    for (const code of [0xd800, 0x110000, 0xdfff]) {
      const error = await fileErrorOf(readStepHeader(await withRun(wide(0x72, code))));
      expect(error).toMatchObject({ tensor: 'run', message: expect.stringContaining('text that is not UTF-32') });
    }
    const bytes = await fileErrorOf(readStepHeader(await withRun(npyOf(npyDict('|S2', [1]), Buffer.of(0x72, 0xe9)))));
    expect(bytes.message).toContain('text that is not UTF-8');
  });

  it('a member whose name is not UTF-8 is refused by its place', async () => {
    const whole = zipOf({ ...npzMembers(smallStep()), 'n\u00e9.npy': npyOf(npyDict('<f4', [1]), Buffer.alloc(4)) });
    // Both names, in the local header and in the directory: é is one byte in Latin-1, here beside another one.
    const latin = Buffer.from(whole.toString('latin1').replaceAll('n\u00c3\u00a9.npy', 'n\u00e9x.npy'), 'latin1');
    const error = await fileErrorOf(readStepHeader(await npz(latin)));
    expect(error.message).toMatch(/the name of a member is not UTF-8: write the file again/);
    expect(latin.subarray(error.offset, (error.offset as number) + 3).toString('latin1')).toBe('n\u00e9x');
  });

  it('refuses metadata that a small file unpacks to without end', async () => {
    const text = npyOf(npyDict('|S65536', []), Buffer.alloc(65_536, 'a'));
    const notes = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}.npy`, text]));
    const steps = npzMembers(smallStep());
    const most = await npz(zipOf({ ...notes(127), ...steps }, { deflate: true }));
    expect(Object.keys((await readStepHeader(most)).metadata)).toContain('n126');
    const path = await npz(zipOf({ ...notes(1000), ...steps }, { deflate: true }));
    const before = process.memoryUsage().rss;
    expect((await fileErrorOf(readStepHeader(path))).message).toMatch(/have more than 8388608 bytes: save texts/);
    expect(process.memoryUsage().rss - before).toBeLessThan(2 ** 27);
  });

  it('text of zeros takes no longer than other text: padding ends where the text does', async () => {
    const zeros = Buffer.concat([Buffer.from('a'), Buffer.alloc(65_534), Buffer.from('b')]);
    const notes = Array.from({ length: 8 }, (_, at) => [`note${at}.npy`, npyOf(npyDict('|S65536', []), zeros)]);
    const run = npyOf(npyDict('|S6', []), Buffer.from('r\0s\0\0\0'));
    const members = { ...npzMembers(smallStep()), ...Object.fromEntries(notes), 'run.npy': run };
    const path = await npz(zipOf(members, { deflate: true }));
    const began = performance.now();
    const header = await readStepHeader(path);
    // One such array took 1.6 s, and a file of 400 kB holds 4,000 of them.
    expect(performance.now() - began).toBeLessThan(2000);
    expect(header.run).toBe('r\0s');
    expect(header.metadata.note7).toBe(zeros.toString());
  });

  it('a score that is wrong is found at its offset in the file', async () => {
    const bytes = zipOf(npzMembers(smallStep()));
    const step = await readStepFile(await npz(bytes));
    if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
    expect(bytes.readFloatLE(step.scores.offsetOf(1, 2, 1))).toBe(-121);
  });

  const faults: [what: string, change: (bytes: Buffer) => Buffer, message: RegExp][] = [
    ['nothing', () => Buffer.alloc(0), /not a zip file, truncated/],
    ['cut', (bytes) => bytes.subarray(0, -1), /not a zip file, truncated/],
    ['a byte too much', (bytes) => Buffer.concat([bytes, Buffer.of(0)]), /not a zip file.*extra bytes at the end/],
    [
      'another directory offset',
      (bytes) => patched(bytes, bytes.length - 6, 1),
      /not a zip file.*directory file header signature/,
    ],
    [
      'another member count',
      (bytes) => patched(bytes, bytes.length - 12, 1),
      /the directory of 1 members does not end here/,
    ],
    ['encrypted', (bytes) => patched(bytes, directoryOf(bytes) + 8, 1), /encrypted/],
    ['another method', (bytes) => patched(bytes, directoryOf(bytes) + 10, 14), /method 14/],
    ['another size', (bytes) => patched(bytes, directoryOf(bytes) + 24, 1), /stored in/],
    ['overlap', (bytes) => patched(bytes, directoryOf(bytes) + 42, 255), /not here/],
    ['no npy', (bytes) => patched(bytes, 30 + 'cross_logprobs.npy'.length, 0), /this is no .npy array/],
  ];
  it.each(faults)('refuses %s', async (_what, change, message) => {
    const error = await fileErrorOf(readStepFile(await npz(change(zipOf(npzMembers(smallStep()))))));
    expect(error.message).toMatch(message);
  });

  it('refuses overlapping members, and deflated data that are damaged, too long or of another checksum', async () => {
    const members = npzMembers(everything());
    const wrong = await npz(zipOf(members, { deflate: true, crc: (value) => (value ^ 1) >>> 0 }));
    expect((await fileErrorOf(readStepFile(wrong))).message).toContain('checksum');
    const packed = zipOf(members, { deflate: true });
    const directory = directoryOf(packed);
    const longer = patched(packed, directory + 24, packed.readUInt32LE(directory + 24) + 1);
    expect((await fileErrorOf(readStepFile(await npz(longer)))).message).toMatch(/nothing may follow|truncated/);
    const bomb = patched(packed, directory + 24, 0x7fffffff);
    expect((await fileErrorOf(readStepFile(await npz(bomb)))).message).toContain('cannot hold');
    const second = directory + 46 + 'cross_logprobs.npy'.length;
    const twice = patched(packed, second + 42, packed.readUInt32LE(directory + 42));
    expect((await fileErrorOf(readStepFile(await npz(twice)))).message).toMatch(/overlaps/);
  });

  it('a zip64 record that its locator puts outside the file, or where there is none', async () => {
    const wide = zipOf(npzMembers(smallStep(), { step: 3, run: 'r' }), { zip64: true });
    const recordAt = wide.length - 22 - 20 + 8;
    const at = (position: bigint) => {
      const bytes = Buffer.from(wide);
      bytes.writeBigUInt64LE(position, recordAt);
      return bytes;
    };
    const problemOf = async (position: bigint) => (await fileErrorOf(readStepFile(await npz(at(position))))).message;
    for (const position of [2n ** 40n, BigInt(wide.length - 22 - 20 - 55)]) {
      expect(await problemOf(position)).toMatch(/lie outside it|zip64 end of central directory record/);
    }
    expect(await problemOf(0n)).toContain('invalid zip64 end of central directory record signature');
  });

  it('the directory of a small file takes one read, that of a large one a read for each far member', async () => {
    const reads: number[] = [];
    const directoryIn = (bytes: Buffer) => {
      reads.length = 0;
      const read = async (target: Uint8Array, at: number) => {
        reads.push(target.length);
        target.set(bytes.subarray(at, at + target.length));
      };
      const source = { path: 'x', bytes: bytes.length, revision: '', stamp: '', read } as unknown as ByteSource;
      return readZipDirectory(source, {});
    };
    const small = zipOf(npzMembers(everything()));
    const { members, directory } = await directoryIn(small);
    expect(reads).toEqual([small.length]);
    expect(directory).toEqual(small.subarray(directoryOf(small), directoryOf(small) + directory.length));
    expect(members.get('lengths.npy')).toMatchObject({ method: 'stored', bytes: expect.any(Number) });
    await directoryIn(zipOf({ a: Buffer.alloc(2 ** 20), b: Buffer.alloc(2 ** 20), c: Buffer.alloc(9) }));
    expect(reads).toEqual([22 + 20 + 0xffff, 30, 30]);
    const many = Object.fromEntries(Array.from({ length: 4097 }, (_, at) => [`${at}`, Buffer.alloc(0)]));
    await expect(directoryIn(zipOf(many))).rejects.toThrow(/a directory of 4097 members.*save fewer arrays/);
  });

  it('any flipped bytes either read or are refused', async () => {
    for (const options of [{}, { deflate: true }, { zip64: true }]) {
      const whole = zipOf(npzMembers(smallStep(), { step: 3, run: 'r' }), options);
      const flips = fc.array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 });
      await fc.assert(
        fc.asyncProperty(flips, async (changes) => {
          const bytes = Buffer.from(whole);
          for (const [at, value] of changes) bytes[at] = value;
          const path = await put(join(folder, 'flipped.npz'), bytes);
          const problem = await readStepFile(path)
            .then(drain)
            .catch((error: unknown) => error);
          if (problem instanceof Error) expect(problem).toBeInstanceOf(FileError);
        }),
        { numRuns: 150 },
      );
    }
  });

  it.skipIf(process.platform !== 'linux')('no handle stays open', async () => {
    const whole = zipOf(npzMembers(everything()), { deflate: true });
    const good = await npz(whole);
    const bad = await npz(zipOf(npzMembers(everything()), { deflate: true, crc: () => 1 }));
    const open = async () => (await readdir('/proc/self/fd')).length;
    const before = await open();
    for (let i = 0; i < 20; i++) {
      const step = await readStepFile(good, { blockBytes: 1 });
      if (step.scores.kind !== 'logprobs') throw new Error('expected logprobs');
      for await (const _ of step.scores.blocks()) break;
      await fileErrorOf(readStepFile(bad));
    }
    expect(await open()).toBe(before);
  });
});

describe('.npy with sidecars', () => {
  async function save(name: string, tensors: Record<string, RawTensor>, description?: string): Promise<string> {
    const main = tensors.cross_logprobs === undefined ? 'cross_logprob_sums' : 'cross_logprobs';
    const path = await put(join(folder, `${name}.npy`), npyTensor(tensors[main] as RawTensor));
    for (const [tensor, value] of Object.entries(tensors)) {
      if (tensor !== main) await put(join(folder, `${name}.${tensor}.npy`), npyTensor(value));
    }
    if (description !== undefined) await writeFile(join(folder, `${name}.json`), description);
    return path;
  }

  it('what the safetensors file gives, by both names of the scores', async () => {
    const metadata = { step: '120', run: 'grid' };
    const expected = await contents(await put(join(folder, 'b.safetensors'), fileOf(everything(), metadata)));
    const path = await save('b', everything(), '{"step": 120, "run": "grid"}');
    expect(await contents(path)).toEqual(expected);
    const { cross_logprobs, ...rest } = everything();
    await save('c', { cross_logprobs, ...rest } as Record<string, RawTensor>, '{"step": 120, "run": "grid"}');
    const long = await put(join(folder, 'd.cross_logprobs.npy'), npyTensor(cross_logprobs as RawTensor));
    for (const [name, tensor] of Object.entries(rest)) await put(join(folder, `d.${name}.npy`), npyTensor(tensor));
    await writeFile(join(folder, 'd.json'), '{"step": "120", "run": "grid"}');
    expect(await contents(long)).toEqual(expected);
  });

  it('sums by their two axes; the step from the name', async () => {
    const { lengths, group } = smallStep() as Record<'lengths' | 'group', RawTensor>;
    const sums = { dtype: 'F64', shape: [4, 2], data: Float64Array.of(-1, -2, -3, -4, -5, -6, -7, -8) };
    const path = await save('sums_0077', { cross_logprob_sums: sums, lengths, group });
    expect(await contents(path)).toMatchObject({ step: 77, kind: 'sums', blocks: [[...sums.data]] });
  });

  it('names the file among them that is at fault', async () => {
    const path = await save('e_1', smallStep());
    const lengths = join(folder, 'e_1.lengths.npy');
    await put(lengths, npyTensor({ dtype: 'I32', shape: [3], data: Int32Array.of(1, 1, 1) }));
    expect(await fileErrorOf(readStepFile(path))).toMatchObject({ path: lengths, tensor: 'lengths' });
    await put(lengths, npyTensor({ dtype: 'I32', shape: [4], data: Int32Array.of(1, 1, 9, 1) }));
    const error = await fileErrorOf(readStepFile(path));
    expect(error).toMatchObject({ path: lengths, tensor: 'lengths', offset: 136 });
    await put(lengths, npyTensor({ dtype: 'I32', shape: [4], data: Int32Array.of(1, 1, 1, 1) }).subarray(0, -1));
    expect((await fileErrorOf(readStepFile(path))).message).toContain('truncated');
    expect((await fileErrorOf(readStepFile(lengths))).message).toContain('sidecar "lengths"');
    for (const [text, message] of [
      ['{"step": [1]}', /string or a number/],
      ['{"step": 1, "step": 2}', /twice/],
      ['{"step": 1.5}', /expected the number of the training step/],
      ['\u{ff}', /a JSON object/],
    ] as const) {
      await put(lengths, npyTensor(smallStep().lengths as RawTensor));
      await writeFile(join(folder, 'e_1.json'), text);
      expect((await fileErrorOf(readStepFile(path))).message).toMatch(message);
    }
  });

  it('names a file that is there where the step number is wrong or missing', async () => {
    const path = await save('g_7', smallStep());
    await writeFile(join(folder, 'g_7.json'), '{"step": "last"}');
    expect(await fileErrorOf(readStepFile(path))).toMatchObject({ path: join(folder, 'g_7.json') });
    const unnumbered = await save('final', smallStep());
    expect(await fileErrorOf(readStepFile(unnumbered))).toMatchObject({ path: unnumbered });
  });

  it('refuses a sidecar that is a link to what is not there', async () => {
    const path = await save('h_8', smallStep());
    for (const sidecar of ['h_8.rewards.npy', 'h_8.json']) {
      await symlink('not-mounted', join(folder, sidecar));
      const error = await fileErrorOf(readStepFile(path));
      expect(error).toMatchObject({ path: join(folder, sidecar) });
      expect(error.message).toMatch(/a link to not-mounted, which is not there/);
      await rm(join(folder, sidecar));
    }
    expect((await readStepFile(path)).rewards).toBeUndefined();
  });

  it('sees a change of the scores after the header was read', async () => {
    const path = await save('f_1', smallStep());
    const step = await readStepFile(path);
    await utimes(path, 1, 1);
    expect((await fileErrorOf(drain(step))).message).toContain('changed');
    const again = await readStepFile(path);
    await truncate(path, 130);
    expect((await fileErrorOf(drain(again))).message).toContain('changed');
  });

  it('a tensor that is not there has no place: numpy has no header for all', async () => {
    const { lengths: _, ...rest } = smallStep();
    const { cross_logprobs: scores, ...sidecars } = rest;
    const missing = 'tensor "lengths": missing: every step needs it, one integer a row';
    const archive = await npz(zipOf(npzMembers(rest)));
    const error = await fileErrorOf(readStepFile(archive));
    expect(error).toMatchObject({ tensor: 'lengths', offset: undefined, message: `${archive}, ${missing}` });
    const array = join(folder, 'lacking3.npy');
    await writeFile(array, npyTensor(scores as RawTensor));
    for (const [name, tensor] of Object.entries(sidecars)) {
      await writeFile(join(folder, `lacking3.${name}.npy`), npyTensor(tensor));
    }
    expect(await fileErrorOf(readStepFile(array))).toMatchObject({ message: `${array}, ${missing}` });
  });

  it('in a folder: arrays with sidecars are steps, single arrays are not, missing ones are named', async () => {
    const place = join(folder, 'run');
    await mkdir(place);
    const array = npyTensor(smallStep().lengths as RawTensor);
    const names = ['a1.npy', 'a1.lengths.npy', 'b2.npy', 'b2.json', 'c3.cross_logprobs.npy', 'weights.npy'];
    for (const name of [...names, 'd4.group.npy', 'e.npz', 'f.safetensors.gz', 'g.safetensors.zst', 'h.gz']) {
      await writeFile(`${place}/${name}`, name.endsWith('npy') ? array : '');
    }
    const { files: found, problems } = await findSteps([place]);
    expect(found.map(({ path }) => path.slice(place.length + 1))).toEqual([
      'a1.npy',
      'b2.npy',
      'c3.cross_logprobs.npy',
      'e.npz',
      'f.safetensors.gz',
      'g.safetensors.zst',
    ]);
    expect(problems.map(({ path, message }) => [path, message])).toEqual([
      [`${place}/d4.npy`, expect.stringContaining('only its sidecars')],
    ]);
  });
});

describe('the header of .npy', () => {
  const parse = (bytes: Buffer) => {
    const fail = (position: number, problem: string): never => {
      throw new FileError({ path: 'f', offset: position }, problem);
    };
    const length = npyHeaderBytes(bytes.subarray(0, 12), bytes.length, fail);
    return parseNpyHeader(bytes.subarray(0, length), bytes.length, fail);
  };

  it.each([1, 2, 3])('version %i', (version) => {
    const header = parse(npyOf(npyDict('<f4', [2, 3]), new Uint8Array(24), version));
    expect(header).toMatchObject({ shape: [2, 3], dataBytes: 24, element: { kind: 'number', dtype: 'F32' } });
    expect(header.headerBytes % 64).toBe(0);
  });

  it('may be as Python writes it in other ways: any order, double quotes, no last comma, sizes with L', () => {
    const dict = `{"shape":(2L,3),"descr":"<f4" ,"fortran_order":False}`;
    expect(parse(npyOf(dict, new Uint8Array(24))).shape).toEqual([2, 3]);
    expect(parse(npyOf(npyDict('|b1', [5, 1], 'True'), new Uint8Array(5))).shape).toEqual([5, 1]);
  });

  const refused: [what: string, dict: string, bytes: number, message: RegExp][] = [
    ['pickled objects', npyDict('|O', [1]), 8, /pickled Python objects, which are never read/],
    ['big-endian numbers', npyDict('>f4', [1]), 4, /big-endian: save array.astype/],
    ['Fortran order', npyDict('<f4', [2, 2], 'True'), 16, /np.ascontiguousarray/],
    ['structures', `{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }`, 4, /structured dtype/],
    ['long doubles', npyDict('<f16', [1]), 16, /array.astype/],
    ['dates', npyDict('<M8[s]', [1]), 8, /array.astype/],
    ['too few bytes', npyDict('<f4', [3]), 8, /has 12 bytes, but 8 follow the header: it is truncated/],
    ['too many bytes', npyDict('<f4', [1]), 8, /nothing may follow/],
    ['sizes beyond everything', npyDict('<f4', [9007199254740991, 9007199254740991]), 8, /truncated/],
    ['negative sizes', npyDict('<f4', [-1]), 4, /expected a size/],
    ['expressions', `{'descr': '<f4', 'fortran_order': False, 'shape': (2*2,), }`, 16, /expected "\)"/],
    ['calls', `__import__('os').system('x')`, 0, /expected "\{"/],
    ['other keys', `{'descr': '<f4', 'x': 1, 'fortran_order': False, 'shape': (), }`, 4, /key x, expected/],
    ['a key twice', `{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (), }`, 4, /key descr/],
    ['a missing key', `{'descr': '<f4', 'shape': (), }`, 4, /must have descr/],
    ['text after the dict', `${npyDict('<f4', [])}x`, 4, /nothing but spaces/],
    ['an open string', `{'descr`, 0, /without its closing quote/],
    ['an open dict', `{'descr': '<f4'`, 0, /expected "\}", found the end of the header/],
    ['no colon', `{'descr' '<f4', }`, 0, /expected ":", found "'<f4', \}/],
  ];
  it.each(refused)('refuses %s', (_what, dict, bytes, message) => {
    expect(() => parse(npyOf(dict, new Uint8Array(bytes)))).toThrow(message);
  });

  it('refuses another magic, another version, a header longer than the file', () => {
    const good = npyOf(npyDict('<f4', []), new Uint8Array(4));
    expect(() => parse(patched(good, 0, 0x92))).toThrow(/this is no .npy array/);
    expect(() => parse(patched(good, 6, 4))).toThrow(/version 4.0/);
    expect(() => parse(patched(good, 9, 0xff))).toThrow(/truncated/);
    expect(() => parse(good.subarray(0, 9))).toThrow(/too few/);
    const wide = npyOf(npyDict('<f4', []), new Uint8Array(4), 2);
    expect(() => parse(patched(wide, 11, 0xff))).toThrow(/over the limit/);
  });

  it('any bytes either parse or are refused', () => {
    const start = fc.constantFrom(npyDict('<f4', [2, 3]), `{'descr': '`, `{'shape': (`, '');
    fc.assert(
      fc.property(start, fc.string(), fc.nat(3), (begin, rest, version) => {
        const bytes = npyOf(begin + rest, new Uint8Array(24), version + 1);
        try {
          expect(parse(bytes).dataBytes).toBe(24);
        } catch (error) {
          expect(error).toBeInstanceOf(FileError);
        }
      }),
      { numRuns: 500 },
    );
  });
});

/** The bytes with a number of 1, 2 or 4 bytes put at `at`, as wide as it needs to be. */
function patched(bytes: Buffer, at: number, value: number): Buffer {
  const copy = Buffer.from(bytes);
  if (value < 256) copy.writeUInt8(value, at);
  else copy.writeUInt32LE(value, at);
  return copy;
}

function directoryOf(bytes: Buffer): number {
  return bytes.readUInt32LE(bytes.length - 6);
}
