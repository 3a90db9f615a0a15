// Classifies a file by its name: a step, a log of rollouts, or a pickle. A .npy array is a step only with sidecars
// beside it, since any array may lie in a folder.
import { npyName } from './formats/npy.js';
import { STEP_KINDS } from './formats/open-container.js';
import type { Container } from './rollouts/format.js';

/** Pickles are only counted, with one of them named: they run code when they are loaded. */
export type InputKind = 'step' | 'log' | 'pickle';

/** Which kinds a search is for. */
export type WantedKinds = 'steps' | 'logs' | 'both';

const CONTAINERS: readonly { readonly ending: RegExp; readonly container: Container }[] = [
  { ending: /\.(jsonl|ndjson|json)(\.gz|\.zst|\.zip)?$|\.eval$/, container: 'json-lines' },
  { ending: /\.parquet$/, container: 'parquet' },
  { ending: /\.csv(\.gz|\.zst)?$/, container: 'csv' },
];

/** slime's and SkyRL's tensors, RAGEN's and verl's batches. */
const PICKLED = /\.(pt|pth|pkl|pickle)$/;

/** For messages. */
export const STEP_ENDINGS = '*.safetensors file (or .safetensors.gz, .npz, or .npy with its sidecars)';
export const LOG_ENDINGS =
  '*.jsonl, *.ndjson, *.json, *.parquet or *.csv file (text also as .gz or .zst), or an *.eval';

/** Whether a step file can have this name. */
export function isStepName(name: string): boolean {
  if (name.endsWith('.npy')) return !npyName(name).sidecar;
  return STEP_KINDS.some(({ ending }) => name.endsWith(ending));
}

/** How a log of this name is packed; undefined if its ending is that of no log. */
export function containerOf(path: string): Container | undefined {
  return CONTAINERS.find(({ ending }) => ending.test(path))?.container;
}

export function isPickleName(path: string): boolean {
  return PICKLED.test(path);
}

/** Whether a file of this name can be a log, or is a pickle, which gets a remark. */
export function isLogName(path: string): boolean {
  return containerOf(path) !== undefined || isPickleName(path);
}

/** Undefined for a name of none of the wanted kinds. */
export function kindOf(name: string, wanted: WantedKinds): InputKind | undefined {
  if (wanted !== 'logs' && isStepName(name)) return 'step';
  if (wanted === 'steps') return undefined;
  if (isPickleName(name)) return 'pickle';
  return containerOf(name) === undefined ? undefined : 'log';
}

export interface SortedNames {
  readonly kinds: ReadonlyMap<string, InputKind>;
  /** Arrays of scores that are not there, though their sidecars are. */
  readonly missing: readonly string[];
}

/** Sorts the names in one folder. */
export function sortNames(names: readonly string[], wanted: WantedKinds): SortedNames {
  const stems = new Set<string>();
  const described = new Set<string>();
  for (const name of names) {
    if (name.endsWith('.json')) described.add(name.slice(0, -'.json'.length));
    if (!name.endsWith('.npy')) continue;
    const { stem, sidecar } = npyName(name);
    if (sidecar) stems.add(stem);
  }
  const kinds = new Map<string, InputKind>();
  const found = new Set<string>();
  for (const name of names) {
    const kind = kindOf(name, wanted);
    if (kind === undefined) continue;
    if (kind === 'step' && name.endsWith('.npy')) {
      const { stem, tensor } = npyName(name);
      if (tensor === undefined && !stems.has(stem) && !described.has(stem)) continue;
      found.add(stem);
    }
    kinds.set(name, kind);
  }
  const missing = wanted === 'logs' ? [] : [...stems].filter((stem) => !found.has(stem)).map((stem) => `${stem}.npy`);
  return { kinds, missing };
}

/** What to say of a name in `missing`. */
export const MISSING_ARRAY = 'there is no such array, only its sidecars: restore it, or remove them';
