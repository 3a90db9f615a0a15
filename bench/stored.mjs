// Stores a run's results as a new file under bench/results.
import { mkdir, rename, writeFile } from 'node:fs/promises';

const results = new URL('./results/', import.meta.url);

/**
 * Takes the name `<base>.json`, or `<base>-2.json` and so on: no earlier run is overwritten. What is written later
 * replaces the whole file at once, so that a reader, or one who kills the run, finds a whole result.
 * @param {URL} folder  ends with a slash
 * @returns {Promise<{ name: string, write: (result: object, indent?: number) => Promise<void> }>}
 */
export async function claimResult(base, folder = results) {
  await mkdir(folder, { recursive: true });
  for (let run = 1; ; run++) {
    const name = run === 1 ? `${base}.json` : `${base}-${run}.json`;
    const place = new URL(name, folder);
    try {
      await writeFile(place, '', { flag: 'wx' });
    } catch (error) {
      if (error.code === 'EEXIST') continue;
      throw error;
    }
    const write = async (result, indent = 1) => {
      const unfinished = new URL(`${name}.part`, folder);
      await writeFile(unfinished, `${JSON.stringify(result, null, indent)}\n`);
      await rename(unfinished, place);
    };
    return { name, write };
  }
}

/** Writes a result that is whole. Returns its path in the repository. */
export async function storeResult(base, result, indent = 1, folder = results) {
  const { name, write } = await claimResult(base, folder);
  await write(result, indent);
  return `bench/results/${name}`;
}
