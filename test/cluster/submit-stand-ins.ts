// Programs that stand in for those of an engine and for collapsar, for tests without a cluster: they write down how
// they were called and answer from files.
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';

export interface StandIns {
  readonly directory: string;
  /** Each call of a program so far, as its words. */
  calls(program: string): string[][];
  forget(): void;
  /** What `squeue` shows: job, index, state. */
  setQueue(tasks: readonly (readonly [string, number | 'N/A', string])[]): void;
  setMaxArraySize(size: number): void;
  /** From the n-th call on sbatch fails; 0 for never. */
  failFrom(call: number): void;
}

/** Words with any character but NUL, one a line; "\n" stands for the end of a line within one. */
const NOTE = `{ printf '%s\\n' "--- $0"; for word; do printf '%s\\n' "$word" | tr '\\n' '\\r' | sed 's/\\r$//'; echo; done; }`;

const PROGRAMS: Readonly<Record<string, string>> = {
  sbatch: `calls=$(cat sbatch.count); calls=$((calls + 1)); echo "$calls" >sbatch.count
fail=$(cat sbatch.fail)
if [ "$fail" -gt 0 ] && [ "$calls" -ge "$fail" ]; then
  echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2
  exit 1
fi
echo "$((100 + calls))"`,
  squeue: 'cat queue',
  scontrol:
    'echo "Configuration data as of today"; echo "MaxArraySize            = $(cat size)"; echo "MaxJobCount = 10000"',
  scancel: ':',
};

/** Puts them on the PATH for the tests of the file. @param parent an empty directory */
export function standIns(parent: string): StandIns {
  const directory = join(parent, 'programs');
  mkdirSync(directory);
  const put = (name: string, text: string | number): void => writeFileSync(join(directory, name), `${text}\n`);
  for (const [name, body] of Object.entries(PROGRAMS)) {
    const path = join(directory, name);
    writeFileSync(path, `#!/bin/sh\ncd '${directory}'\n${NOTE} >>${name}.calls\n${body}\n`);
    chmodSync(path, 0o755);
  }
  const path = process.env.PATH;
  beforeAll(() => {
    process.env.PATH = [directory, path].join(delimiter);
  });
  afterAll(() => {
    process.env.PATH = path;
  });
  const result: StandIns = {
    directory,
    calls: (program) => {
      const file = join(directory, `${program}.calls`);
      if (!existsSync(file)) return [];
      const calls = readFileSync(file, 'utf8')
        .split(/^--- .*\n/m)
        .slice(1);
      return calls.map((call) => call.split('\n').slice(0, -1));
    },
    forget: () => {
      for (const name of Object.keys(PROGRAMS)) writeFileSync(join(directory, `${name}.calls`), '');
      put('sbatch.count', 0);
      put('sbatch.fail', 0);
      put('size', 1001);
      writeFileSync(join(directory, 'queue'), '');
    },
    setQueue: (tasks) => writeFileSync(join(directory, 'queue'), tasks.map((task) => `${task.join(' ')}\n`).join('')),
    setMaxArraySize: (size) => put('size', size),
    failFrom: (call) => put('sbatch.fail', call),
  };
  result.forget();
  return result;
}

/** A collapsar that keeps to the contract of `analyze --shard` and `--journals` without measuring anything. */
export function standInCollapsar(path: string): string {
  writeFileSync(
    path,
    `#!/bin/sh
command=$1
shift
printf '%s' "$command" >>"$0.calls"
for word; do printf '|%s' "$word" >>"$0.calls"; done
echo >>"$0.calls"
shard=
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2; shift ;;
    --shard) shard=$2; shift ;;
  esac
  shift
done
if [ -n "$shard" ]; then
  mkdir -p "$out/journals"
  : >"$out/journals/\${shard%/*}-of-\${shard#*/}"
else
  echo results; echo '1 file could not be used' >&2; exit 1
fi
`,
  );
  chmodSync(path, 0o755);
  return path;
}
