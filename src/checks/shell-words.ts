// Quotes the words of a command so that a POSIX shell reads back those very words.

const PLAIN = /^[A-Za-z0-9_@%+=:,./-]+$/;

/** One word, in single quotes where it has to be. */
export function shellWord(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

export function shellLine(words: readonly string[]): string {
  return words.map(shellWord).join(' ');
}
