// Names of files in, those that are steps out: what a search takes. A .npy array is a step only with sidecars beside
// it, since any array may lie in a folder.
import { npyName } from '../formats/npy.js';
import { STEP_KINDS } from '../formats/open-container.js';

/** True for a name that a step file can have. */
export function isStepName(name: string): boolean {
  if (name.endsWith('.npy')) return !npyName(name).sidecar;
  return STEP_KINDS.some(({ ending }) => name.endsWith(ending));
}

export interface SortedNames {
  readonly steps: string[];
  /** Arrays of scores that are not there, though their sidecars are: which one to name. */
  readonly missing: string[];
}

/** What the names in one folder are. */
export function sortNames(names: readonly string[]): SortedNames {
  const stems = new Set<string>();
  const described = new Set<string>();
  for (const name of names) {
    if (name.endsWith('.json')) described.add(name.slice(0, -'.json'.length));
    if (!name.endsWith('.npy')) continue;
    const { stem, sidecar } = npyName(name);
    if (sidecar) stems.add(stem);
  }
  const steps = names.filter((name) => {
    if (!isStepName(name)) return false;
    if (!name.endsWith('.npy')) return true;
    const { stem, tensor } = npyName(name);
    return tensor !== undefined || stems.has(stem) || described.has(stem);
  });
  const found = new Set(steps.filter((name) => name.endsWith('.npy')).map((name) => npyName(name).stem));
  return { steps, missing: [...stems].filter((stem) => !found.has(stem)).map((stem) => `${stem}.npy`) };
}

/** What to say of a name in `missing`. */
export const MISSING_ARRAY = 'there is no such array, only its sidecars: restore it, or remove them';

/** For messages. */
export const STEP_ENDINGS = '*.safetensors file (or .safetensors.gz, .npz, or .npy with its sidecars)';
