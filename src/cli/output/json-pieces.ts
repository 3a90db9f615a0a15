// Writes an object as JSON in pieces: with an entry per group or row it can be longer than a string of V8 (512 MB).

/** Entries of a list written at a time. */
const CHUNK = 4096;

/**
 * The text of `JSON.stringify(object, null, 2)`.
 * @param object its lists may be any iterable, which is gone through once; not a string
 */
export function* jsonPieces(object: Readonly<Record<string, unknown>>): Generator<string, void, undefined> {
  let before = '{';
  for (const [key, value] of Object.entries(object)) {
    if (value === undefined) continue;
    yield `${before}\n  ${JSON.stringify(key)}: `;
    if (isList(value)) yield* listPieces(value);
    else yield indented(JSON.stringify(value, null, 2));
    before = ',';
  }
  yield before === '{' ? '{}' : '\n}';
}

function isList(value: unknown): value is Iterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.iterator in value;
}

function* listPieces(list: Iterable<unknown>): Generator<string, void, undefined> {
  let before = '[';
  let chunk: unknown[] = [];
  const text = (): string => {
    // Without its brackets, and the line break before the last one.
    const entries = indented(JSON.stringify(chunk, null, 2).slice(1, -2));
    chunk = [];
    const piece = before + entries;
    before = ',';
    return piece;
  };
  for (const entry of list) {
    chunk.push(entry);
    if (chunk.length === CHUNK) yield text();
  }
  if (chunk.length > 0) yield text();
  yield before === '[' ? '[]' : '\n  ]';
}

/** JSON has no line breaks but between its parts. */
function indented(text: string): string {
  return text.replaceAll('\n', '\n  ');
}
