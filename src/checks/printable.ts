// Text from an untrusted file, made fit for a terminal and for an error message: no control characters, no megabytes.

const LONGEST = 120;

export function printable(text: string): string {
  return escaped(text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
}

/** The same for what must stay whole, such as a path. */
export function escaped(text: string): string {
  // Control and format characters (terminal escapes, bidirectional overrides), line ends and lone surrogates.
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (c) => `\\u{${c.codePointAt(0)?.toString(16)}}`);
}

/** The same for text of several lines, which stay. */
export function escapedLines(text: string): string {
  return text.split('\n').map(escaped).join('\n');
}
