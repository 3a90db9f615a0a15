// A run's results -> a new file under bench/results.
import { mkdir, writeFile } from 'node:fs/promises';

const results = new URL('./results/', import.meta.url);

/** Writes `<base>.json`, or `<base>-2.json` and so on: no earlier run is overwritten. Returns its path in the repository. */
export async function storeResult(base, result, indent = 1, folder = results) {
  await mkdir(folder, { recursive: true });
  for (let run = 1; ; run++) {
    const name = run === 1 ? `${base}.json` : `${base}-${run}.json`;
    try {
      await writeFile(new URL(name, folder), `${JSON.stringify(result, null, indent)}\n`, { flag: 'wx' });
      return `bench/results/${name}`;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
  }
}
