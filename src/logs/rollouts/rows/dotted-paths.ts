// Names that lead into objects and lists: `meta.step`, `choices.0.text`. A column of that very name comes first.
import { Fields } from '../fields.js';

/** The names, and what must be read beside them: the first parts of those that are paths. */
export function withRoots(names: readonly string[]): string[] {
  return [...new Set(names.flatMap((name) => [name, rootOf(name)]))];
}

/** The first part of a path; of another name all of it. */
export function rootOf(name: string): string {
  return name.slice(0, name.indexOf('.', 1) < 0 ? name.length : name.indexOf('.', 1));
}

/** The fields themselves where none of the names is a path. */
export function followingPaths(fields: Fields, names: readonly string[]): Fields {
  return names.some((name) => rootOf(name) !== name) ? new PathFields(fields) : fields;
}

class PathFields extends Fields {
  readonly #roots = new Map<string, unknown>();

  constructor(private readonly fields: Fields) {
    super();
  }

  value(name: string): unknown {
    const own = this.fields.value(name);
    const root = rootOf(name);
    if (own !== undefined || root === name) return own;
    let value = this.#roots.get(root);
    if (!this.#roots.has(root)) {
      value = this.fields.value(root);
      this.#roots.set(root, value);
    }
    for (const part of name.slice(root.length + 1).split('.')) {
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined;
      value = (value as Record<string, unknown>)[part];
    }
    return value === null ? undefined : value;
  }

  // As the fields have them, if no path is followed: digits and bytes as they are written.
  override isText(name: string): boolean {
    return rootOf(name) === name ? this.fields.isText(name) : super.isText(name);
  }

  override isNested(name: string): boolean {
    return rootOf(name) === name ? this.fields.isNested(name) : super.isNested(name);
  }

  override id(name: string): string | undefined {
    return rootOf(name) === name ? this.fields.id(name) : super.id(name);
  }

  override written(name: string) {
    return rootOf(name) === name ? this.fields.written(name) : super.written(name);
  }

  override tokens(name: string): Int32Array | undefined {
    return rootOf(name) === name ? this.fields.tokens(name) : super.tokens(name);
  }

  override floats(name: string): Float64Array | undefined {
    return rootOf(name) === name ? this.fields.floats(name) : super.floats(name);
  }

  override outcome(name: string): number | undefined {
    return rootOf(name) === name ? this.fields.outcome(name) : super.outcome(name);
  }
}
