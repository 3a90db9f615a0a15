// The container: what it takes, and everything hostile that it must refuse with the place of the fault.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FileError } from '../../src/checks/errors.js';
import { encodeHeader, headerLength, parseHeader, type SafetensorsHeader } from '../../src/logs/formats/safetensors.js';
import { container, fileOf, fullStep, smallStep } from '../support/logs-files.js';

function parse(file: Buffer): SafetensorsHeader {
  const length = headerLength('f', file, file.length);
  return parseHeader('f', file.subarray(8, 8 + length), file.length);
}

function refusal(file: Buffer): FileError {
  try {
    parse(file);
  } catch (error) {
    if (error instanceof FileError) return error;
    throw error;
  }
  throw new Error('the file was taken');
}

/** A file with one U8 tensor "a" of two bytes, its entry replaced by `entry`. */
function oneTensor(entry: string, data = 2): Buffer {
  return container(`{"a":${entry}}`, new Uint8Array(data));
}

describe('other files', () => {
  it('a file of torch.save is known by its first bytes', () => {
    const zip = Buffer.concat([Buffer.from('PK\u0003\u0004', 'latin1'), Buffer.alloc(60, 8)]);
    expect(refusal(zip).message).toMatch(/torch\.save\(\) writes: write steps with save_file\(\)/);
  });
});

describe('what trainers and downloads leave in its place', () => {
  it.each([
    ['{"step":1,"input":"a","output":"b","score":1}', /JSON text, such as the rollouts that trainers dump/],
    ['[{"step": 1}]', /JSON text/],
    ['\u0080\u0004\u0095\u000a\u0000\u0000\u0000\u0000', /a pickle, which is never loaded/],
    ['\u001f\u008b\u0008\u0000\u0000\u0000\u0000\u0003', /gzip: name it \.safetensors\.gz/],
    ['version https://git-lfs.github.com/spec/v1', /a pointer of Git LFS.*git lfs pull/],
    ['<!doctype html>', /header length .* is over the limit/],
  ])('is known by its first bytes: %j', (text, message) => {
    expect(refusal(Buffer.from(text, 'latin1')).message).toMatch(message);
  });
});

describe('what is taken', () => {
  it('gives dtype, shape and place of every tensor, and the metadata', () => {
    const file = fileOf(fullStep(), { step: '12', text: 'é "q" \n ☃' });
    const header = parse(file);
    const start = file.length - [...header.tensors.values()].reduce((sum, e) => sum + e.end - e.begin, 0);
    expect([...header.tensors.keys()]).toEqual(Object.keys(fullStep()));
    expect(header.tensors.get('note')).toMatchObject({ dtype: 'U8', shape: [1], begin: start, end: start + 1 });
    expect(header.tensors.get('cross_logprobs')).toMatchObject({ shape: [2, 4, 3], begin: start + 1, end: start + 97 });
    expect(Object.fromEntries(header.metadata)).toEqual({ step: '12', text: 'é "q" \n ☃' });
  });

  it('takes spaces, unknown members of an entry, scalars, empty tensors and any order', () => {
    const entries = [
      '"b" : { "extra": [1.5e3, {"x": [null, true, -0.0]}], "data_offsets":[1,2],"shape":[],"dtype":"U8"}',
      '"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}',
      '"e":{"dtype":"F64","shape":[3,0],"data_offsets":[1,1]}',
    ];
    const header = parse(container(` {${entries.join(' , ')}}  \n`, new Uint8Array(2)));
    expect(header.tensors.get('b')).toMatchObject({ shape: [], dtype: 'U8' });
    expect(header.tensors.get('e')).toMatchObject({ shape: [3, 0] });
  });

  it('knows the sizes of all dtypes, those below a byte too', () => {
    const bits = { F4: 4, F6_E2M3: 6, F6_E3M2: 6, BOOL: 8, U8: 8, I8: 8, F8_E5M2: 8, F8_E4M3: 8, F8_E8M0: 8 };
    const more = { F8_E4M3FNUZ: 8, F8_E5M2FNUZ: 8, I16: 16, U16: 16, F16: 16, BF16: 16, I32: 32, U32: 32, F32: 32 };
    const wide = { C64: 64, F64: 64, I64: 64, U64: 64 };
    for (const [dtype, size] of Object.entries({ ...bits, ...more, ...wide })) {
      const entry = `{"dtype":"${dtype}","shape":[2,4],"data_offsets":[0,${size}]}`;
      expect(parse(oneTensor(entry, size)).tensors.get('a')?.dtype).toBe(dtype);
    }
    expect(refusal(oneTensor('{"dtype":"F4","shape":[3],"data_offsets":[0,2]}')).message).toContain(
      'whole number of bytes',
    );
  });

  it('gives names such as __proto__ no meaning', () => {
    const entry = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}';
    const meta = '"__metadata__":{"__proto__":"x","constructor":"y"}';
    const header = parse(container(`{${meta},"__proto__":${entry}}`, new Uint8Array(1)));
    expect(header.tensors.get('__proto__')?.shape).toEqual([1]);
    expect(header.metadata.get('__proto__')).toBe('x');
    expect(header.tensors.get('toString')).toBeUndefined();
  });
});

describe('what is refused', () => {
  const good = '{"dtype":"U8","shape":[2],"data_offsets":[0,2]}';
  const cases: [what: string, file: Buffer, message: RegExp, tensor?: string][] = [
    ['an empty file', Buffer.alloc(0), /too few/],
    [
      'a header length over the limit',
      Buffer.from('ffffffffffffffff', 'hex'),
      /18446744073709551615 is over the limit/,
    ],
    ['a header longer than the file', container('{}').subarray(0, 9), /only 1 bytes follow/],
    ['no header', container(''), /expected a JSON object/],
    ['an array for a header', container('[]'), /expected a JSON object/],
    ['bytes that are not UTF-8', container('{}  ').fill(0xff, 10), /not UTF-8/],
    ['a byte order mark', container('\u{feff}{}'), /expected a JSON object/],
    ['text after the header', container('{} x'), /nothing but spaces/],
    ['NaN', oneTensor('{"dtype":"U8","shape":[NaN],"data_offsets":[0,2]}'), /whole number.*NaN/, 'a'],
    ['a float for a size', oneTensor('{"dtype":"U8","shape":[2.0],"data_offsets":[0,2]}'), /whole number/, 'a'],
    ['an exponent', oneTensor('{"dtype":"U8","shape":[2e0],"data_offsets":[0,2]}'), /whole number/, 'a'],
    ['a negative size', oneTensor('{"dtype":"U8","shape":[-2],"data_offsets":[0,2]}'), /whole number/, 'a'],
    ['a negative offset', oneTensor('{"dtype":"U8","shape":[2],"data_offsets":[-2,0]}'), /whole number/, 'a'],
    ['a huge size', oneTensor('{"dtype":"U8","shape":[9007199254740993],"data_offsets":[0,2]}'), /whole number/, 'a'],
    [
      'a product that overflows',
      oneTensor('{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,2]}'),
      /2\^53/,
      'a',
    ],
    ['offsets in the wrong order', oneTensor('{"dtype":"U8","shape":[2],"data_offsets":[2,0]}'), /begin ≤ end/, 'a'],
    ['one offset', oneTensor('{"dtype":"U8","shape":[2],"data_offsets":[2]}'), /\[begin, end\]/, 'a'],
    [
      'axes without end',
      oneTensor(`{"dtype":"U8","shape":[${'0,'.repeat(64)}2],"data_offsets":[0,0]}`),
      /shape has more than 64 elements/,
      'a',
    ],
    ['three offsets', oneTensor('{"dtype":"U8","shape":[2],"data_offsets":[0,2,2]}'), /\[begin, end\]/, 'a'],
    [
      'a range that does not match the shape',
      oneTensor('{"dtype":"F32","shape":[2],"data_offsets":[0,2]}'),
      /2 bytes, but F32 of shape \[2\] has 8/,
      'a',
    ],
    [
      'a range outside the file',
      oneTensor('{"dtype":"U8","shape":[3],"data_offsets":[0,3]}'),
      /has only 2.*truncated/,
      'a',
    ],
    ['an unknown dtype', oneTensor('{"dtype":"F31","shape":[2],"data_offsets":[0,2]}'), /F31 is not one of/, 'a'],
    [
      'a dtype that objects inherit',
      oneTensor('{"dtype":"toString","shape":[2],"data_offsets":[0,2]}'),
      /not one of/,
      'a',
    ],
    ['an entry without a shape', oneTensor('{"dtype":"U8","data_offsets":[0,2]}'), /must have/, 'a'],
    ['a shape twice', oneTensor('{"dtype":"U8","shape":[2],"shape":[2],"data_offsets":[0,2]}'), /twice/, 'a'],
    ['an entry that is no object', oneTensor('7'), /expected a JSON object/, 'a'],
    ['a name twice', container(`{"a":${good},"a":${good}}`, new Uint8Array(2)), /twice/, 'a'],
    ['a name twice, once escaped', container(`{"a":${good},"\\u0061":${good}}`, new Uint8Array(2)), /twice/, 'a'],
    ['__metadata__ twice', container('{"__metadata__":{},"__metadata__":{}}'), /twice/],
    ['a key of the metadata twice', container('{"__metadata__":{"k":"1","k":"2"}}'), /twice/],
    ['metadata that is not a string', container('{"__metadata__":{"k":1}}'), /only strings/],
    [
      'trailing bytes',
      container('{}', new Uint8Array(1)),
      /after the last tensor belong to no tensor: write the file again/,
    ],
    ['deep nesting', container(`{"a":{"x":${'['.repeat(50_000)}${']'.repeat(50_000)}}}`), /nested deeper/, 'a'],
    ['an open string', container('{"a'), /closing quote/],
    ['half of a surrogate pair', container('{"__metadata__":{"k":"\\ud83d"}}'), /surrogate/],
    ['an unknown escape', container('{"\\q":1}'), /escape/],
    ['a raw line end in a string', container('{"a\n":1}'), /control character/],
  ];
  it.each(cases)('names the fault: %s', (_what, file, message, tensor) => {
    const error = refusal(file);
    expect(error.message).toMatch(message);
    expect(error.path).toBe('f');
    expect(error.offset).toBeTypeOf('number');
    expect(error.tensor).toBe(tensor);
  });

  it('tensors that overlap or leave a hole, by name and offset', () => {
    const two = (a: [number, number], b: [number, number]) => {
      const entry = ([begin, end]: [number, number]) => ({
        dtype: 'U8',
        shape: [end - begin],
        data_offsets: [begin, end],
      });
      return container({ a: entry(a), b: entry(b) }, new Uint8Array(4));
    };
    const start = two([0, 2], [2, 4]).length - 4;
    expect(parse(two([2, 4], [0, 2])).tensors.size).toBe(2);
    expect(refusal(two([0, 3], [2, 4]))).toMatchObject({ tensor: 'b', offset: start + 2 });
    expect(refusal(two([0, 3], [2, 4])).message).toMatch(
      /overlaps tensor "a", which ends at offset [0-9]+: write the file again/,
    );
    expect(refusal(two([0, 4], [0, 4])).message).toContain('overlaps');
    expect(refusal(two([0, 4], [2, 2])).message).toContain('overlaps');
    expect(refusal(two([0, 1], [2, 4])).message).toMatch(/1 bytes between.*no holes/);
    expect(refusal(two([1, 2], [2, 4]))).toMatchObject({ tensor: 'a', offset: start + 1 });
  });

  it('the file cut at every byte, with an offset inside what is left', () => {
    const whole = fileOf(smallStep());
    expect(parse(whole).tensors.size).toBe(3);
    for (let length = 0; length < whole.length; length++) {
      expect(refusal(whole.subarray(0, length)).offset).toBeLessThanOrEqual(Math.max(length, 8));
    }
  });

  it('keeps control characters and megabytes out of the message', () => {
    const name = `\\u001b[31m${'x'.repeat(1_000_000)}`;
    const error = refusal(container(`{"${name}":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`));
    expect(error.message.length).toBeLessThan(600);
    expect(error.message).not.toContain('\u001b');
  });
});

it('any bytes either parse or are refused with a FileError', () => {
  const whole = fileOf(fullStep());
  const headerEnd = 8 + Number(whole.readBigUInt64LE(0));
  const flips = fc.array(fc.tuple(fc.nat(headerEnd - 1), fc.nat(255)), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(flips, (changes) => {
      const file = Buffer.from(whole);
      for (const [at, value] of changes) file[at] = value;
      let header: SafetensorsHeader;
      try {
        header = parse(file);
      } catch (error) {
        expect(error).toBeInstanceOf(FileError);
        return;
      }
      for (const { begin, end } of header.tensors.values()) {
        expect(begin).toBeGreaterThanOrEqual(8);
        expect(end).toBeLessThanOrEqual(file.length);
      }
    }),
    { numRuns: 3000 },
  );
  fc.assert(
    fc.property(fc.json(), fc.uint8Array({ maxLength: 8 }), (json, data) => {
      try {
        parse(container(json, data));
      } catch (error) {
        expect(error).toBeInstanceOf(FileError);
      }
    }),
    { numRuns: 500 },
  );
});

it('what is encoded is parsed again, with aligned data', () => {
  const tensor = fc.record({ name: fc.string(), count: fc.nat(5) });
  const tensors = fc.uniqueArray(tensor, { selector: (t) => t.name, maxLength: 5 });
  const metadata = fc.dictionary(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), { maxKeys: 4 });
  fc.assert(
    fc.property(tensors, metadata, (list, strings) => {
      const usable = list.filter((t) => t.name !== '__metadata__');
      const encoded = usable.map(({ name, count }) => ({
        name,
        dtype: 'I32' as const,
        shape: [count],
        bytes: 4 * count,
      }));
      const head = encodeHeader(encoded, new Map(Object.entries(strings)));
      expect(head.length % 8).toBe(0);
      const size = encoded.reduce((sum, t) => sum + t.bytes, 0);
      const header = parse(Buffer.concat([head, new Uint8Array(size)]));
      expect([...header.tensors.values()].map((t) => [t.name, t.shape[0]])).toEqual(
        usable.map((t) => [t.name, t.count]),
      );
      expect([...header.metadata]).toEqual(Object.entries(strings));
    }),
    { numRuns: 200 },
  );
});
