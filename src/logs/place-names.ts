// Derives from the names of a file and its folders, of any trainer, which step it belongs to, which files are parts of
// one step, and what is not training.
import { resolve } from 'node:path';
import { directoryOf, isRemote, nameOf } from './stores/store.js';

/** What names say. */
export interface NamedPlace {
  /** Folders of the file without those that are a step, a part or a split. */
  readonly runDirectory: string;
  /** What is not training: eval, val, test. */
  readonly split?: string | undefined;
  readonly step?: number | undefined;
  /** Equal for files that are parts of one; undefined for a file that is not a part. */
  readonly partOf?: string | undefined;
}

/** What is known before names are looked at. */
export interface KnownPlace {
  /** The trainer's layout has names of its own below this folder. */
  readonly runDirectory?: string | undefined;
  readonly split?: string | undefined;
  readonly step?: number | undefined;
  /** Parts do not form a step together: each is a run. */
  readonly keepsParts?: boolean | undefined;
}

const BEFORE = '(?<=^|[._-])';
const AFTER = '(?=[._-]|$)';
const STEP = new RegExp(`${BEFORE}(?:global[._-]?)?(?:step|iteration|iter|checkpoint)[._=-]?(\\d+)${AFTER}`, 'i');
const PART = '(?:(?:rank|shard|part|worker)[._=-]?\\d+|\\d+-of-\\d+)';
const PART_NAME = new RegExp(`^${PART}$`, 'i');
const PART_IN_NAME = new RegExp(BEFORE + PART + AFTER, 'gi');
const SPLIT = '(?:split=)?(train|evals?|val|valid|validation|test)';
const SPLIT_NAME = new RegExp(`^${SPLIT}$`, 'i');
const SPLIT_IN_NAME = new RegExp(BEFORE + SPLIT + AFTER, 'i');
const ENDING = /\.(jsonl|ndjson|json|parquet|csv|safetensors|npz|npy)(\.(gz|zst))?$/i;

/**
 * The innermost name with a step says it, and the folder around it is the run, without folders of the same step, of
 * parts and of splits; what a folder's name has beside its step is part of the run's.
 * @param root the folder that was searched: names above it say nothing, and its own only if there is no other folder
 *   between it and the file; without it that is the file's folder
 */
export function placeByNames(path: string, root?: string, known: KnownPlace = {}): NamedPlace {
  const stem = nameOf(path).replace(ENDING, '');
  const folder = known.runDirectory ?? directoryOf(path);
  const { base, names, isInside } = namesBelow(folder, root ?? folder);
  // A file that its trainer names after the step says nothing else.
  const words = known.runDirectory !== undefined && known.step !== undefined ? '' : stem;
  let step = known.step ?? stepIn(words);
  let split = known.split ?? splitOf(SPLIT_IN_NAME.exec(words)?.[1]);
  const kept: string[] = [];
  const takeSplit = (name: string): boolean => {
    const found = splitOf(SPLIT_NAME.exec(name)?.[1]);
    // A split within another is one of its own.
    if (found === undefined || (found !== 'train' && (split ?? found) !== found && split !== 'train')) return false;
    if (found !== 'train' || split === undefined) split = found;
    return true;
  };
  /** Whether a folder is not part of the run's path. */
  const passes = (name: string, isWhole: boolean): boolean => {
    const said = stepIn(name);
    const rest = name.replace(STEP, '').replace(/^[._-]+|[._-]+$/g, '');
    if (said === undefined || (step ?? said) !== said || (isWhole && rest !== '')) {
      return (known.keepsParts !== true && PART_NAME.test(name)) || takeSplit(name);
    }
    // Folders within that of a step are the trainer's.
    if (step === undefined) kept.length = 0;
    step = said;
    if (rest !== '' && !takeSplit(rest)) kept.unshift(rest);
    return true;
  };
  for (const name of names.toReversed()) if (!passes(name, false)) kept.unshift(name);
  const directory = isInside && kept.length === 0 && passes(nameOf(base), true) ? directoryOf(base) : base;
  const all = [...names, stem];
  const without = all.map((name) => name.replace(PART_IN_NAME, ''));
  return {
    runDirectory: [directory.replace(/\/$/, ''), ...kept].join('/') || '/',
    ...(split !== undefined && split !== 'train' && { split }),
    ...(step !== undefined && { step }),
    ...(without.some((name, at) => name !== all[at]) && { partOf: without.join('/') }),
  };
}

/** Undefined if there is none, or one that no number holds. */
function stepIn(name: string): number | undefined {
  const step = Number(STEP.exec(name)?.[1] ?? Number.NaN);
  return Number.isSafeInteger(step) ? step : undefined;
}

function splitOf(word: string | undefined): string | undefined {
  return word
    ?.toLowerCase()
    .replace(/^valid(ation)?$/, 'val')
    .replace(/^evals$/, 'eval');
}

/** The names from `root` down to `folder`. Of a folder outside it, or of a bucket, not even its own name says anything. */
function namesBelow(folder: string, root: string): { base: string; names: string[]; isInside: boolean } {
  const [whole, from] = isRemote(folder) ? [folder, root] : [resolve(folder), resolve(root)];
  const prefix = from.replace(/\/?$/, '/');
  if (whole !== from && !whole.startsWith(prefix)) return { base: whole, names: [], isInside: false };
  const names = whole.slice(prefix.length).split('/').filter(Boolean);
  return { base: from, names, isInside: !directoryOf(from).endsWith(':/') };
}
