// Converts a report to what JSON can carry: typed arrays as arrays, and numbers that JSON does not have as null, with
// their places listed.

export type PlainJson =
  | null
  | boolean
  | number
  | string
  | readonly PlainJson[]
  | { readonly [name: string]: PlainJson };

/** What a number that JSON lacks is called in `nonFinite`. */
export type NonFinite = 'NaN' | 'Infinity' | '-Infinity';

export interface Plain {
  readonly value: PlainJson;
  /** Numbers that `value` has as null, by JSON pointer (RFC 6901) into it. */
  readonly nonFinite: Readonly<Record<string, NonFinite>>;
}

/** Copies plain data; what JSON leaves out (undefined, functions) is left out. */
export function plainJson(data: unknown): Plain {
  const nonFinite: Record<string, NonFinite> = {};
  const copy = (value: unknown, pointer: string): PlainJson | undefined => {
    if (typeof value === 'number') {
      if (Number.isFinite(value)) return value;
      nonFinite[pointer] = String(value) as NonFinite;
      return null;
    }
    if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
    if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
    if (typeof value !== 'object') return undefined;
    if (Array.isArray(value) || ArrayBuffer.isView(value)) {
      return Array.from(value as ArrayLike<unknown>, (entry, at) => copy(entry, `${pointer}/${at}`) ?? null);
    }
    const members: Record<string, PlainJson> = {};
    for (const [name, member] of Object.entries(value)) {
      const copied = copy(member, `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`);
      if (copied !== undefined) members[name] = copied;
    }
    return members;
  };
  return { value: copy(data, '') ?? null, nonFinite };
}
