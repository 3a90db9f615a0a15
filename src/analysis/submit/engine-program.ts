// A program of an engine (sbatch, squeue, …): run, waited for, and its failure told in its own words.
import { execFile } from 'node:child_process';
import { ClusterError } from '../../errors.js';

/**
 * @returns what it wrote to stdout
 * @throws {ClusterError} when there is no such program, or it fails
 */
export function engineProgram(words: readonly string[], advice: string): Promise<string> {
  const [program = '', ...args] = words;
  return new Promise((resolve, reject) => {
    execFile(program, args, { maxBuffer: 2 ** 28 }, (error, stdout, stderr) => {
      if (error === null) {
        resolve(stdout);
      } else if (error.code === 'ENOENT') {
        reject(new ClusterError(`${program}: there is no such program here: ${advice}`, { cause: error }));
      } else {
        const said = stderr.trim() || error.message;
        reject(new ClusterError(`${program} failed: ${said.slice(0, 2000)}`, { cause: error }));
      }
    });
  });
}
