// JSON lines, a row each -> what plan-scores draws pairs for: {"group": 3, "length": 120, "turn": 1}. Groups may have
// numbers of any length, or names, as trainers give them (verl's uid).
import { FileError } from '../../checks/errors.js';
import { IdNumbers } from '../../checks/ids.js';
import { printable } from '../../checks/words.js';
import { isLongInteger, parseJsonLine } from '../../logs/rollouts/json-lines/json-line.js';
import { jsonSize } from '../../logs/rollouts/json-lines/json-size.js';
import { DEFAULT_MEMORY } from '../../logs/rollouts/log-options.js';

/** Of a row, its group's name among them. */
const ROW_BYTES = 128;

/** Shorter ones take no memory that counts, whatever they hold. */
const LONG_LINE = 2 ** 16;

const GROUP_NAMES = ['group', 'group_id', 'uid'] as const;

export interface SampledRows {
  /** [R] */
  readonly groups: Int32Array;
  readonly lengths: readonly number[];
  /** Empty unless asked for. */
  readonly turns: readonly number[];
  /** [P] each group as JSON, by rising number or, where some have names, in the order in which they come. */
  readonly groupNames: readonly string[];
}

export class SampledLines {
  readonly #path: string;
  readonly #withTurns: boolean;
  readonly #ids = new IdNumbers<string>();
  readonly #groups: number[] = [];
  readonly #lengths: number[] = [];
  readonly #turns: number[] = [];
  #line = 0;

  /** @param maxMemory bytes that rows may take, about */
  constructor(
    path: string,
    withTurns: boolean,
    private readonly maxMemory = DEFAULT_MEMORY,
  ) {
    this.#path = path;
    this.#withTurns = withTurns;
  }

  /** @throws {FileError} naming the line */
  add(text: string): void {
    this.#line++;
    const line = text.trim();
    if (line === '') return;
    if (ROW_BYTES * (this.#groups.length + 1) > this.maxMemory) {
      this.#fail(`--max-memory ${this.maxMemory} has no room for more rows: give more, or plan a step at a time`);
    }
    const row = this.#parse(line);
    this.#groups.push(this.#ids.numberOf(this.#group(row)));
    this.#lengths.push(this.#whole(row, 'length'));
    if (this.#withTurns) this.#turns.push(this.#whole(row, 'turn'));
  }

  /** @throws {FileError} when there was no row */
  finish(): SampledRows {
    if (this.#groups.length === 0) {
      throw new FileError({ path: this.#path }, 'no rows; expected a line {"group": …, "length": …} for each');
    }
    const names = this.#ids.ids;
    const order = inOrder(names);
    const placeOf = new Int32Array(order.length);
    for (const [place, id] of order.entries()) placeOf[id] = place;
    return {
      groups: Int32Array.from(this.#groups, (id) => placeOf[id] as number),
      lengths: this.#lengths,
      turns: this.#turns,
      groupNames: order.map((id) => names[id] as string),
    };
  }

  #parse(line: string): Record<string, unknown> {
    if (line.length > LONG_LINE && jsonSize(Buffer.from(line)) > this.maxMemory) {
      this.#fail(
        `lists and objects in ${line.length} characters, which --max-memory ${this.maxMemory} has no room for; expected {"group": …, "length": …}`,
      );
    }
    let value: unknown;
    try {
      value = parseJsonLine(line);
    } catch {
      value = undefined;
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      this.#fail('not a JSON object; expected {"group": …, "length": …}');
    }
    return value as Record<string, unknown>;
  }

  #group(row: Record<string, unknown>): string {
    const key = GROUP_NAMES.find((name) => row[name] !== undefined);
    if (key === undefined) this.#fail('"group" missing; expected a whole number or a name');
    const value = row[key];
    if (typeof value === 'number' && Number.isSafeInteger(value)) return String(value);
    if (typeof value !== 'string' || value === '') {
      this.#fail(`"${key}" got ${printable(JSON.stringify(value))}; expected a whole number or a name`);
    }
    return isLongInteger(value) ? value : JSON.stringify(value);
  }

  #whole(row: Record<string, unknown>, key: 'length' | 'turn'): number {
    const value = row[key];
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
      const what = value === undefined ? 'missing' : `got ${printable(JSON.stringify(value))}`;
      this.#fail(`"${key}" ${what}; expected a whole number`);
    }
    return value;
  }

  #fail(problem: string): never {
    throw new FileError({ path: this.#path }, `line ${this.#line}: ${problem}`);
  }
}

/** Numbers by size; with names among them, all as they come. */
function inOrder(names: readonly string[]): number[] {
  const order = names.map((_, id) => id);
  if (!names.every((name) => /^-?\d+$/.test(name))) return order;
  const values = names.map(BigInt);
  return order.sort((a, b) => ((values[a] as bigint) < (values[b] as bigint) ? -1 : 1));
}
