// Names of groups and episodes -> numbers, which the library goes by, and back.

/** Numbered by first appearance. */
export class NamedIds {
  readonly #ids = new Map<string, number>();
  readonly #names: string[] = [];

  idOf(name: string): number {
    let id = this.#ids.get(name);
    if (id === undefined) {
      id = this.#names.length;
      this.#ids.set(name, id);
      this.#names.push(name);
    }
    return id;
  }

  /** By id. */
  get names(): readonly string[] {
    return this.#names;
  }

  nameOf(id: number): string {
    return this.#names[id] as string;
  }
}
