// Runs a program of an engine (sbatch, squeue, …), waits for it, and reports its failure in the program's words.
import { execFile } from 'node:child_process';
import { ClusterError } from '../checks/errors.js';

/**
 * @param advice what to do if there is no such program
 * @param failed what to do when it fails; where not given, its own words have to do
 * @returns what it wrote to stdout
 * @throws {ClusterError} when there is no such program, or it fails
 */
export function engineProgram(words: readonly string[], advice: string, failed?: string): Promise<string> {
  const [program = '', ...args] = words;
  return new Promise((resolve, reject) => {
    execFile(program, args, { maxBuffer: 2 ** 28 }, (error, stdout, stderr) => {
      if (error === null) {
        resolve(stdout);
      } else if (error.code === 'ENOENT') {
        reject(new ClusterError(`${program}: there is no such program here: ${advice}`, { cause: error }));
      } else {
        const said = stderr.trim() || error.message;
        const next = failed === undefined ? '' : `\n${failed}`;
        reject(new ClusterError(`${program} failed: ${said.slice(0, 2000)}${next}`, { cause: error }));
      }
    });
  });
}
