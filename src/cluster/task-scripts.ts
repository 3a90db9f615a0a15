// A submission -> the shell scripts that its tasks run, the same on every engine: one maps a shard, one waits for the
// markers of all shards, merges them and writes the results. Only a POSIX shell and collapsar are needed on a node.
import { shellLine, shellWord } from '../checks/shell-words.js';
import type { Submission } from './submission.js';

/** Missing shards that a message names. */
const NAMED = 20;

/** @param index shell words that tell `collapsar map` which shard; none where the environment does */
export function mapScript(
  submission: Submission,
  engine: { before?: string; index?: string; threads?: string },
): string {
  const { mapOptions, collapsar } = submission;
  const index = engine.index === undefined ? '' : ` --index ${engine.index}`;
  const isGiven = mapOptions.some((word) => word.startsWith('--threads'));
  const threads = engine.threads === undefined || isGiven ? '' : ` --threads ${engine.threads}`;
  const options = mapOptions.length === 0 ? '' : ` ${shellLine(mapOptions)}`;
  return `#!/bin/sh
# Measures one shard. What is complete is left as it is, so that starting it again does no harm.
${paths(submission)}
if [ ! -e "$manifest" ] || [ ! -d "$submission" ]; then
  echo "$(uname -n) does not see $manifest and $submission: put --work on a file system that all nodes share" >&2
  exit 1
fi
${engine.before ?? ''}exec ${collapsar} map --manifest "$manifest" --out "$work"${index}${threads}${options} --quiet
`;
}

/**
 * Ends with finalize's exit status, which is also in `status`, with what it wrote in `finalize.out` and `finalize.err`.
 * @param wait `patience`: seconds to go on without a new marker while some are missing; `every`: seconds between looks
 */
export function mergeScript(submission: Submission, wait: { patience: number; every: number }): string {
  const { collapsar, mergeOptions, finalizeOptions, shards, out, again } = submission;
  const more = (options: readonly string[]): string => (options.length === 0 ? '' : ` ${shellLine(options)}`);
  return `#!/bin/sh
# Merges all shards when they are complete, and writes the results.
${paths(submission)}
out=${shellWord(out)}
again=${shellWord(again)}
shards=${shards}
patience=${wait.patience}

# Counts the shards without a marker and names the first of them.
count_missing() {
  missing=0
  named=
  i=0
  while [ "$i" -lt "$shards" ]; do
    case $i in
      ?) marker=0000$i ;;
      ??) marker=000$i ;;
      ???) marker=00$i ;;
      ????) marker=0$i ;;
      *) marker=$i ;;
    esac
    if [ ! -e "$work/completions/$marker" ]; then
      missing=$((missing + 1))
      if [ "$missing" -le ${NAMED} ]; then named="$named $i"; fi
    fi
    i=$((i + 1))
  done
}

# A shared file system may show a marker late.
wait_for_markers() {
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
    echo "Why is in $submission/logs. The others are kept; to run only these again, and then the merge:"
    printf '  %s\\n' "$again"
  } >&2
  return 1
}

results() {
  wait_for_markers || return 1
  ${collapsar} merge "$work/shards" --out "$work/merged.state"${more(mergeOptions)} --quiet >/dev/null || return 1
  ${collapsar} finalize --manifest "$manifest" --state "$work/merged.state" --out "$out"${more(finalizeOptions)} --quiet
}

mkdir -p "$submission" || exit 1
results >"$submission/finalize.out" 2>"$submission/finalize.err"
status=$?
cat "$submission/finalize.err" >&2
# The name appears when the number is in it.
printf '%s\\n' "$status" >"$submission/.status" && mv "$submission/.status" "$submission/status"
exit "$status"
`;
}

function paths({ manifest, work, directory }: Submission): string {
  return `manifest=${shellWord(manifest)}\nwork=${shellWord(work)}\nsubmission=${shellWord(directory)}`;
}
