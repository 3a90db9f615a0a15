// Writes the shell scripts that tasks run on every engine: one measures a shard, one waits for the journals of all
// shards and writes the results. A node needs only a POSIX shell and collapsar.
import { isAbsolute } from 'node:path';
import { shellLine, shellWord } from '../checks/shell-words.js';
import { isAddress } from '../logs/stores/address.js';
import type { Submission } from './submission.js';

/** Missing shards that a message names. */
const NAMED = 20;

/** @param engine `index`: what the shell takes for the number of the shard; `before`: lines that come first */
export function shardScript(
  submission: Submission,
  engine: { before?: string; index: string; threads?: string },
): string {
  const { measuring, shardOptions, collapsar, shards } = submission;
  const isGiven = shardOptions.some((word) => word.startsWith('--threads'));
  const threads = engine.threads === undefined || isGiven ? '' : ` --threads ${engine.threads}`;
  const options = more([...measuring, ...shardOptions]);
  return `#!/bin/sh
# Measures one shard. What was measured before is kept, so that starting it again does no harm.
${paths(submission)}
if [ ! -d "$submission" ]; then
  echo "$(uname -n) does not see $submission: put --work on a file system that all nodes share" >&2
  exit 1
fi
${enter(submission)}${engine.before ?? ''}exec ${collapsar} analyze --shard "${engine.index}/${shards}" --out "$work"${threads}${options} --quiet -- ${shellLine(submission.paths)}
`;
}

/**
 * Ends with the exit status of the analysis, which is also in `status`, with what it wrote in `finish.out` and
 * `finish.err`.
 * @param wait `patience`: seconds to wait for a new journal while some are missing; `every`: seconds between looks
 */
export function finishScript(submission: Submission, wait: { patience: number; every: number }): string {
  const { collapsar, measuring, finishOptions, shards, out, again } = submission;
  return `#!/bin/sh
# Writes the results when all shards are complete.
${paths(submission)}
out=${shellWord(out)}
again=${shellWord(again)}
shards=${shards}
patience=${wait.patience}

# Counts the shards without a whole journal and names the first of them.
count_missing() {
  missing=0
  named=
  i=0
  while [ "$i" -lt "$shards" ]; do
    if [ ! -e "$work/journals/$i-of-$shards" ]; then
      missing=$((missing + 1))
      if [ "$missing" -le ${NAMED} ]; then named="$named $i"; fi
    fi
    i=$((i + 1))
  done
}

# A shared file system may show a journal late.
wait_for_journals() {
  waited=0
  count_missing
  while [ "$missing" -gt 0 ] && [ "$waited" -lt "$patience" ]; do
    before=$missing
    sleep ${wait.every}
    waited=$((waited + ${wait.every}))
    count_missing
    if [ "$missing" -ne "$before" ]; then waited=0; fi
  done
  if [ "$missing" -eq 0 ]; then return 0; fi
  if [ "$missing" -gt ${NAMED} ]; then named="$named …"; fi
  {
    echo "error: $missing of $shards shards are not complete:$named"
    echo "Why is in $submission/logs. The others are kept; to run only these again, and then the rest:"
    printf '  %s\\n' "$again"
  } >&2
  return 1
}

results() {
  wait_for_journals || return 1
${enter(submission, '  ', 'return')}  ${collapsar} analyze --journals "$work" --out "$out"${more([...measuring, ...finishOptions])} --quiet -- ${shellLine(submission.paths)}
}

mkdir -p "$submission" || exit 1
results >"$submission/finish.out" 2>"$submission/finish.err"
status=$?
cat "$submission/finish.err" >&2
# The name appears when the number is in it.
printf '%s\\n' "$status" >"$submission/.status" && mv "$submission/.status" "$submission/status"
exit "$status"
`;
}

function more(options: readonly string[]): string {
  return options.length === 0 ? '' : ` ${shellLine(options)}`;
}

function paths({ work, directory }: Submission): string {
  return `work=${shellWord(work)}\nsubmission=${shellWord(directory)}`;
}

/** Results name files as they were given: relative paths are those of the directory that was submitted from. */
function enter({ paths, from }: Submission, indent = '', leave = 'exit'): string {
  if (paths.every((path) => isAddress(path) || isAbsolute(path))) return '';
  return `${indent}cd ${shellWord(from)} || ${leave} 1\n`;
}
