// Text from an untrusted file, made fit for an error message: no control characters, no megabytes.

const LONGEST = 120;

export function printable(text: string): string {
  const cut = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  // Control and format characters (terminal escapes, bidirectional overrides), line ends and lone surrogates.
  return cut.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (c) => `\\u{${c.codePointAt(0)?.toString(16)}}`);
}
