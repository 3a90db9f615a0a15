// What is fuzzed: any bytes as a step of each format, read as `analyze` reads it, and as a rollout log of each trainer,
// from a source that knows where it ends. Only a FileError may come out; reading past the end, memory beyond the file's
// size and anything else thrown are findings.
import { FileError } from '../src/checks/errors.js';
import { OWN_COLUMNS } from '../src/logs/rollouts/columns.js';
import type { Container } from '../src/logs/rollouts/format.js';
import { FORMATS } from '../src/logs/rollouts/formats/index.js';
import { type ReadRolloutsOptions, readRollouts } from '../src/logs/rollouts/read-rollouts.js';
import { readStepFile } from '../src/logs/steps/step-file.js';
import type { ByteSource } from '../src/logs/stores/byte-source.js';
import { STORES } from '../src/logs/stores/store.js';

export interface Target {
  readonly name: string;
  /** Its seeds, from the root (seeds.ts). */
  readonly seeds: string;
  /** Ending that the bytes are opened by. */
  readonly ending: string;
  /**
   * Bytes to hold for each byte of the file, in one piece: what deflate can unpack from it, where that may be in it.
   */
  readonly memoryPerByte: number;
  /** What the format is made of, for the mutations. */
  readonly words: readonly string[];
  /** Of a rollout log: how it is read. */
  readonly log?: ReadRolloutsOptions;
}

const NAMES = [
  'cross_logprobs',
  'cross_logprob_sums',
  'lengths',
  'group',
  'column_group',
  'prompt_ids',
  'token_entropy',
];

/** Of JSON as Python writes it. */
const JSON_WORDS = [
  ...[
    'NaN',
    '-Infinity',
    'null',
    'true',
    '1e309',
    '[]',
    '{}',
    '[[',
    '"\\u',
    '\\"',
    '\n',
    '\xef\xbb\xbf',
    '\xff',
    '1152921504606846977',
  ],
  ...['<think>', '</think>', '<answer>', '{"role": "assistant", "content": "a"}', '"message": {'],
];

const COLUMNS = { step: 'step', group: 'group', output: 'output', tokens: 'tokens', reward: 'reward' } as const;

const PARQUET_WORDS = ['PAR1', '\x15\x00\x15', '\x2c\x15', '\x4c\x15', '\xfe\xff\xff\xff\x0f', '\x19\x1c'];

/** Of what a reader of rollouts opens by its ending. */
const CONTAINERS: Readonly<Record<Container, Pick<Target, 'ending' | 'memoryPerByte' | 'words'>>> = {
  'json-lines': { ending: '.jsonl', memoryPerByte: 4, words: JSON_WORDS },
  parquet: { ending: '.parquet', memoryPerByte: 1032, words: PARQUET_WORDS },
  csv: { ending: '.csv', memoryPerByte: 4, words: ['"', '""', ',', '\r\n', '\xff', 'NaN', '[1, 2]'] },
};

/** One a reader, and one for each further form that our own columns come in. */
const LOG_TARGETS: readonly Target[] = [
  ...FORMATS.map(({ name, fields, containers: [container] }) => ({
    ...CONTAINERS[container],
    name: `rollouts-${name}`,
    seeds: `src/logs/rollouts/formats/${name}/seeds`,
    words: [...CONTAINERS[container].words, ...fields.map((field) => (container === 'csv' ? field : `"${field}": `))],
    log: { format: name, groupSize: 2, tagTokens: [5, 6] as const },
  })),
  {
    name: 'rollouts-json',
    seeds: 'fuzz/seeds/rollouts-json',
    ending: '.json',
    memoryPerByte: 4,
    words: [...JSON_WORDS, '[', ']', ',', '}{', '[{', '}]', '[["a"], "b"]', ...OWN_COLUMNS],
    log: { format: 'rollouts' },
  },
  {
    name: 'rollouts-zstd',
    seeds: 'fuzz/seeds/rollouts-zstd',
    ending: '.jsonl.zst',
    memoryPerByte: 2 ** 15,
    words: ['\x28\xb5\x2f\xfd', '\x50\x2a\x4d\x18', '\x24', '\x00\x38', '\x01\x00\x00', '\x03\x00\x10', '\xfd\x7f\x00'],
    log: { format: 'rollouts' },
  },
  {
    ...CONTAINERS.csv,
    name: 'rollouts-csv',
    seeds: 'fuzz/seeds/rollouts-csv',
    words: [...CONTAINERS.csv.words, ...Object.values(COLUMNS)],
    log: { columns: COLUMNS },
  },
  {
    ...CONTAINERS.parquet,
    name: 'rollouts-parquet',
    seeds: 'fuzz/seeds/rollouts-parquet',
    words: [...PARQUET_WORDS, ...OWN_COLUMNS],
    log: { format: 'rollouts' },
  },
];

export const TARGETS: readonly Target[] = [
  {
    name: 'safetensors',
    seeds: 'fuzz/seeds/safetensors',
    ending: '.safetensors',
    memoryPerByte: 1,
    words: [
      ...NAMES.map((name) => `"${name}":`),
      ...['F32', 'BF16', 'F64', 'I32', 'I64', 'BOOL', 'F4'].map((dtype) => `"dtype":"${dtype}"`),
      ...[
        '"__metadata__":{',
        '"step":"1"',
        '"shape":[',
        '"data_offsets":[0,',
        '},',
        '\\u0000',
        '"__proto__":',
        '9007199254740991',
        '[[[[[',
      ],
    ],
  },
  {
    name: 'npy',
    seeds: 'fuzz/seeds/npy',
    ending: '.npy',
    memoryPerByte: 1,
    words: [
      ...[
        "'descr': '",
        "'fortran_order': ",
        "'shape': (",
        'False, ',
        'True, ',
        '<f4',
        '>f8',
        '|O',
        '<U7',
        '|V2',
        '(2, 3, 4), }',
        '2L,',
        '\x93NUMPY',
      ],
      '9007199254740991',
    ],
  },
  {
    name: 'npz',
    seeds: 'fuzz/seeds/npz',
    ending: '.npz',
    memoryPerByte: 1032,
    words: [
      ...NAMES.map((name) => `${name}.npy`),
      ...[
        'step.npy',
        'PK\x03\x04',
        'PK\x01\x02',
        'PK\x05\x06',
        'PK\x06\x06',
        'PK\x06\x07',
        '\x01\x00\x10\x00',
        '\x93NUMPY\x01\x00',
      ],
      ...["{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", '<U3', '\xff\xff\xff\xff'],
    ],
  },
  ...LOG_TARGETS,
];

/** Beyond what the file's size allows: headers, windows of decompressors. */
const OWN_MEMORY = 2 ** 20;

/** A finding: what the reader must not do. */
export class Misuse extends Error {}

class Memory implements ByteSource {
  readonly revision = '1';
  readonly stamp = '1';

  constructor(
    readonly path: string,
    private readonly content: Uint8Array,
  ) {}

  get bytes(): number {
    return this.content.length;
  }

  async read(target: Uint8Array, position: number): Promise<void> {
    if (!Number.isSafeInteger(position) || position < 0 || position + target.length > this.bytes) {
      throw new Misuse(`reads ${target.length} bytes at ${position} of ${this.bytes}`);
    }
    target.set(this.content.subarray(position, position + target.length));
  }

  async checkUnchanged(): Promise<void> {}
  async close(): Promise<void> {}
}

let files = new Map<string, Uint8Array>();

STORES.push({
  scheme: 'memory://',
  isSearched: false,
  open: async (path) => {
    const content = files.get(path);
    if (content !== undefined) return new Memory(path, content);
    throw new FileError({ path }, 'not there', { cause: Object.assign(new Error('not there'), { code: 'ENOENT' }) });
  },
});

/** Sidecars of the array that is fuzzed; the array's own kind of bytes are its scores. */
let sidecars: ReadonlyMap<string, Uint8Array> = new Map();

export function useSidecars(given: ReadonlyMap<string, Uint8Array>): void {
  sidecars = given;
}

/**
 * Reads `content` to its end.
 * @returns what the reader said, undefined when it took the bytes
 * @throws Misuse, or whatever it should not have thrown
 */
export async function readAsStep(
  { ending, memoryPerByte, log }: Target,
  content: Uint8Array,
): Promise<FileError | undefined> {
  const path = `memory://run/step_1${ending}`;
  files = new Map([[path, content]]);
  if (ending === '.npy') for (const [name, bytes] of sidecars) files.set(`memory://run/step_1.${name}`, bytes);
  const limit = content.length * memoryPerByte + OWN_MEMORY;
  const guard = new AllocationGuard(limit);
  try {
    if (log !== undefined) return await readLog(path, log);
    const step = await readStepFile(path, { blockBytes: 1 });
    const { scores } = step;
    if (scores.kind === 'sums') await scores.read();
    else for await (const _ of scores.blocks());
    return undefined;
  } catch (error) {
    if (error instanceof FileError) return error;
    throw error;
  } finally {
    guard.lift();
  }
}

async function readLog(path: string, options: ReadRolloutsOptions): Promise<FileError | undefined> {
  let first: FileError | undefined;
  const onError = (error: FileError): void => {
    first ??= error;
  };
  for await (const _ of readRollouts(path, { ...options, onError, threads: 1 }));
  return first;
}

/** Makes every larger allocation of the reader throw. */
class AllocationGuard {
  readonly #alloc = Buffer.alloc;
  readonly #allocUnsafe = Buffer.allocUnsafe;
  readonly #shared = globalThis.SharedArrayBuffer;
  readonly #plain = globalThis.ArrayBuffer;

  constructor(limit: number) {
    const checked = (bytes: number): number => {
      if (bytes > limit) throw new Misuse(`allocates ${bytes} bytes where ${limit} are allowed`);
      return bytes;
    };
    const [alloc, allocUnsafe] = [this.#alloc, this.#allocUnsafe];
    Buffer.alloc = ((bytes: number, ...rest: []) => alloc(checked(bytes), ...rest)) as typeof Buffer.alloc;
    Buffer.allocUnsafe = ((bytes: number) => allocUnsafe(checked(bytes))) as typeof Buffer.allocUnsafe;
    // Functions that give the real thing, so that its instances stay instances.
    globalThis.SharedArrayBuffer = guarded(this.#shared, checked);
    globalThis.ArrayBuffer = guarded(this.#plain, checked);
  }

  lift(): void {
    Buffer.alloc = this.#alloc;
    Buffer.allocUnsafe = this.#allocUnsafe;
    globalThis.SharedArrayBuffer = this.#shared;
    globalThis.ArrayBuffer = this.#plain;
  }
}

function guarded<T extends ArrayBufferConstructor | SharedArrayBufferConstructor>(
  buffer: T,
  checked: (bytes: number) => number,
): T {
  return new Proxy(buffer, {
    construct: (target, [bytes, ...rest], self) => Reflect.construct(target, [checked(bytes), ...rest], self),
  });
}
