// Marks steps with letters for remarks, and explains each letter below the table: one per kind of remark, however many
// steps have it.
import { escaped } from '../../../checks/words.js';
import { wrap } from '../text-wrap.js';

/** a, b, …, z, a1, b1, …: still distinct when written side by side. */
const markOf = (index: number): string =>
  String.fromCharCode('a'.charCodeAt(0) + (index % 26)) + (index < 26 ? '' : Math.floor(index / 26));

export class Footnotes {
  /** By the remark with its numbers taken out: remarks that differ in nothing else are of one kind. */
  readonly #kinds = new Map<string, { mark: string; example: string; first: number; steps: number }>();

  get any(): boolean {
    return this.#kinds.size > 0;
  }

  marks(step: number, notes: readonly string[]): string {
    return notes.map((note) => this.#mark(note, step)).join('');
  }

  #mark(note: string, step: number): string {
    const kind = note.replace(/[0-9][0-9.,e+-]*/g, '#');
    let entry = this.#kinds.get(kind);
    if (entry === undefined) {
      entry = { mark: markOf(this.#kinds.size), example: note, first: step, steps: 0 };
      this.#kinds.set(kind, entry);
    }
    entry.steps++;
    return entry.mark;
  }

  /** One entry a kind of remark. */
  entries(): { mark: string; text: string }[] {
    return [...this.#kinds.values()].map(({ mark, example, first, steps }) => {
      const where = steps === 1 ? `step ${first}` : `${steps} steps, first step ${first}`;
      return { mark, text: `${where}: ${escaped(example)}` };
    });
  }

  text(width: number): string {
    return this.entries()
      .map(({ mark, text }) => wrap(text, width, `  ${mark}  `))
      .join('\n');
  }
}
