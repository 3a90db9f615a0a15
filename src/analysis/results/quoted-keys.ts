// Keys of objects -> their text in JSON: the same keys come with every step, and quoting them is most of what
// JSON.stringify does.

const MOST_KEYS = 4096;

/**
 * @param spell how a key is written. Default: as it is
 * @returns what quotes a key, with the colon that follows it, and remembers the first 4096
 */
export function keyQuoter(spell: (key: string) => string = (key) => key): (key: string) => string {
  const known = new Map<string, string>();
  return (key) => {
    let text = known.get(key);
    if (text === undefined) {
      text = `${JSON.stringify(spell(key))}:`;
      if (known.size < MOST_KEYS) known.set(key, text);
    }
    return text;
  };
}
