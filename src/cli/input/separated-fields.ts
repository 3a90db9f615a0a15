// A line of fields with separators between them -> the fields, out of the quotes of CSV. By hand where there are
// quotes: a regular expression remembers each step through a quoted field, and has no room for more than some millions
// of them.

interface Separation {
  /** Finds the next separator. */
  readonly separator: RegExp;
  /** What may stand between a quoted field and its separators. */
  readonly blank: RegExp;
}

/** What may stand between fields; of spaces any number, tabs among them. */
export type Delimiter = ',' | ';' | '\t' | ' ';

const SEPARATIONS: Readonly<Record<Delimiter, Separation>> = {
  ',': { separator: /,/g, blank: /\s*/y },
  ';': { separator: /;/g, blank: /\s*/y },
  '\t': { separator: /\t/g, blank: / */y },
  ' ': { separator: /\s+/g, blank: /(?:)/y },
};

/**
 * The fields of a line. Of the delimiters that stand in it outside quotes the first of comma, semicolon and tab, else
 * spaces.
 */
export function separatedFields(line: string, delimiter = delimitersIn(line)[0] ?? ' '): string[] {
  if (!line.includes('"')) return line.split(delimiter === ' ' ? /\s+/ : delimiter).map((part) => part.trim());
  const found: string[] = [];
  for (let at = 0; ; ) {
    const { end, next } = fieldAt(line, at, SEPARATIONS[delimiter]);
    found.push(unquoted(line.slice(at, end).trim()));
    if (end === line.length) return found;
    at = next;
  }
}

/** Commas, semicolons and tabs of a line, in this order; between quotes they are text. */
export function delimitersIn(line: string): Delimiter[] {
  const found = new Set<Delimiter>();
  for (let at = 0; at < line.length; ) {
    const quote = line.indexOf('"', at);
    const bare = line.slice(at, quote < 0 ? line.length : quote);
    for (const delimiter of MARKS) if (bare.includes(delimiter)) found.add(delimiter);
    if (quote < 0) break;
    at = Math.max(quote + 1, quotedFrom(line, quote).end);
  }
  return MARKS.filter((delimiter) => found.has(delimiter));
}

const MARKS: readonly Delimiter[] = [',', ';', '\t'];

function fieldAt(line: string, at: number, { separator, blank }: Separation): { end: number; next: number } {
  const begin = endOf(blank, line, at);
  const quoted = line[begin] === '"' ? quotedFrom(line, begin) : undefined;
  if (quoted?.isClosed) {
    const end = endOf(blank, line, quoted.end);
    const next = separatorFrom(line, end, separator);
    if (next.end === end) return next;
  }
  // Quotes amid a field are text, and so is one that is never closed.
  return separatorFrom(line, at, separator);
}

function endOf(expression: RegExp, line: string, at: number): number {
  expression.lastIndex = at;
  return at + (expression.exec(line)?.[0].length ?? 0);
}

function separatorFrom(line: string, at: number, separator: RegExp): { end: number; next: number } {
  separator.lastIndex = at;
  const found = separator.exec(line);
  return found === null ? { end: line.length, next: line.length } : { end: found.index, next: separator.lastIndex };
}

/**
 * @returns where the text ends that the quote at `at` begins; not closed, behind the first of the last two quotes in a
 *   row
 */
function quotedFrom(line: string, at: number): { end: number; isClosed: boolean } {
  let end = at;
  for (let quote = line.indexOf('"', at + 1); quote >= 0; quote = line.indexOf('"', quote + 2)) {
    end = quote + 1;
    // CSV doubles quotes within quotes.
    if (line[end] !== '"') return { end, isClosed: true };
  }
  return { end, isClosed: false };
}

function unquoted(text: string): string {
  if (text[0] !== '"') return text;
  const { end, isClosed } = quotedFrom(text, 0);
  return isClosed && end === text.length ? text.slice(1, -1).replaceAll('""', '"') : text;
}
