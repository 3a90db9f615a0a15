// Finds out, as far as possible from this machine, whether the process that a file belongs to still runs.
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { errorCode } from '../../logs/stores/system-problem.js';

export interface RunningProcess {
  readonly pid: number;
  /** Clock ticks from the machine's start to the process's: ids are given again. Empty if not known. */
  readonly started: string;
  /** Where process ids mean the same: this start of this machine, and the container in it. Empty if not known. */
  readonly world: string;
  readonly host: string;
}

export function thisProcess(): RunningProcess {
  return { pid: process.pid, started: startOf(process.pid), world: worldOf(), host: hostname() };
}

/** @returns undefined if it cannot be known from here */
export function looksAlive({ pid, started, world, host }: RunningProcess): boolean | undefined {
  const here = thisProcess();
  if (world !== here.world || (world === '' && host !== here.host)) return undefined;
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: there is one, of another user.
    if (errorCode(error) === 'ESRCH') return false;
  }
  const present = startOf(pid);
  return present === '' || started === '' || present === started;
}

function worldOf(): string {
  try {
    const machine = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${machine}.${readlinkSync('/proc/self/ns/pid').replace(/[^0-9]/g, '')}`;
  } catch {
    return '';
  }
}

/** From /proc/PID/stat, where there is one. */
function startOf(pid: number): string {
  try {
    const line = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field, the name, may hold blanks and parentheses. State is the third field, the start the 22nd.
    const fields = line.slice(line.lastIndexOf(')') + 2).split(' ');
    // A zombie has ended; only its parent has not asked yet.
    return fields[0] === 'Z' || fields[0] === 'X' ? 'ended' : (fields[19] ?? '');
  } catch {
    return '';
  }
}
