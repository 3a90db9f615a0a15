// Collects summaries of runs into the list of summary.json. They wait on disk: a directory with a step per run has as
// many runs as steps, and a string of V8 ends at 512 MB.
import { AtomicFile } from '../logs/stores/atomic-file.js';

/** Never gets this name: its lines go into summary.json. */
const NAME = 'summary.json.runs';

/** What a list as the last member of an object is indented by. */
const INDENT = '\n    ';

export class RunSummaries {
  readonly #directory: string;
  #file: AtomicFile | undefined;
  #last: Promise<void> = Promise.resolve();
  /** The first one: a list that lacks a run must not pass for whole. */
  #failure: { readonly error: unknown } | undefined;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * In the order of the calls, whether or not they are waited for.
   * @throws FileError when it cannot be written
   */
  add(summary: object): Promise<void> {
    const text = INDENT + JSON.stringify(summary, null, 2).replaceAll('\n', INDENT);
    const writing = this.#last.then(() => this.#write(text));
    this.#last = writing.catch((error: unknown) => {
      this.#failure ??= { error };
    });
    return writing;
  }

  async #write(text: string): Promise<void> {
    const before = this.#file === undefined ? '' : ',';
    this.#file ??= await AtomicFile.open(this.#directory, NAME);
    await this.#file.write(before + text);
  }

  /**
   * The text of `{ ...head, runs: [...] }`, as JSON.stringify gives it with an indent of 2, in pieces.
   * @throws FileError when it cannot be read, or one of them could not be written
   */
  async *within(head: object): AsyncGenerator<string, void, undefined> {
    const { runs: _, ...rest } = head as { runs?: unknown };
    const text = JSON.stringify({ ...rest, runs: [] }, null, 2);
    await this.#last;
    if (this.#failure !== undefined) throw this.#failure.error;
    if (this.#file === undefined) {
      yield text;
      return;
    }
    yield text.slice(0, -']\n}'.length);
    // The last line ends, too, for readers of lines.
    await this.#file.write('\n');
    yield* this.#file.lines();
    yield '  ]\n}';
  }

  async discard(): Promise<void> {
    await this.#last;
    await this.#file?.discard();
    this.#file = undefined;
  }
}
