// Names that someone may have meant.

/** At most `most` of `names`, the nearest first, by edits; those that contain the word count as near. */
export function nearest(word: string, names: readonly string[], most = 3): string[] {
  const distances = names.map((name) => ({
    name,
    distance: name.includes(word) && word.length > 2 ? 1 : edits(word, name),
  }));
  const near = distances.filter(
    ({ name, distance }) => distance <= Math.max(1, Math.min(word.length, name.length) / 3),
  );
  return near
    .sort((a, b) => a.distance - b.distance || a.name.length - b.name.length)
    .slice(0, most)
    .map(({ name }) => name);
}

/** Levenshtein's distance, with swapped neighbours as one edit. */
function edits(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min((last[j] as number) + 1, (row[j - 1] as number) + 1, (last[j - 1] as number) + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, (before[j - 2] as number) + 1);
      row.push(least);
    }
    [before, last] = [last, row];
  }
  return last[b.length] as number;
}
