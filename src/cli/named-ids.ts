// Names of groups and episodes -> numbers, which the filter goes by, and back.

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

  nameOf(id: number): string {
    return this.#names[id] as string;
  }
}
