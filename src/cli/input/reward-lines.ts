// Lines of text, one row each -> rows of groups, rewards and what goes with them. A line is a JSON object, a JSON
// array, or fields separated by commas, tabs or spaces: those that a heading names, else group, reward and, if there is
// one, outcome.

import { FileError } from '../../checks/errors.js';
import { IdNumbers } from '../../checks/ids.js';
import { counted, printable } from '../../checks/words.js';
import { parseJsonLine } from '../../logs/rollouts/json-lines/json-line.js';
import type { FilterSource } from './filter-source.js';
import { type Delimiter, delimitersIn, separatedFields } from './separated-fields.js';

/** Fields of a JSON object or a heading, with the names that trainers give them (verl: uid, score). */
const NAMES = {
  group: ['group', 'group_id', 'uid'],
  reward: ['reward', 'score'],
  outcome: ['outcome'],
  episode: ['episode', 'episode_id'],
  turn: ['turn'],
  entropy: ['entropy'],
  length: ['length'],
} as const;

type Field = keyof typeof NAMES;

const REQUIRED = ['group', 'reward'] as const;

const namesOf = (field: Field): string => NAMES[field].join(' or ');

/** Fields that all rows have, or none. */
const OPTIONAL = ['outcome', 'episode', 'turn', 'entropy', 'length'] as const;

export class RewardLines {
  readonly #path: string;
  #line = 0;
  /** As the heading has them. */
  #order: readonly Field[] | undefined;
  /** Line number of each row. */
  readonly #lineOfRow: number[] = [];
  readonly #groups = new IdNumbers<string>();
  readonly #episodes = new IdNumbers<string>();
  readonly #groupOfRow: number[] = [];
  readonly #rewards: (number | null | undefined)[] = [];
  readonly #columns: Partial<Record<(typeof OPTIONAL)[number], number[]>> = {};

  /** What separates fields; until it is known, undefined. */
  #delimiter: Delimiter | undefined;

  constructor(path: string, delimiter?: Delimiter) {
    this.#path = path;
    this.#delimiter = delimiter;
  }

  /** @throws FileError naming the line */
  add(text: string): void {
    this.#line++;
    const line = text.trim();
    if (line === '') return;
    const isJson = /^[[{]/.test(line);
    if (!isJson) this.#delimiter ??= this.#delimiterOf(line);
    if (this.#line === 1 && this.#heading(line)) return;
    const fields = isJson ? this.#json(line) : this.#separated(line);
    const row = this.#rewards.length;
    this.#groupOfRow.push(this.#groups.numberOf(this.#name('group', fields.group)));
    this.#rewards.push(isMissing(fields.reward) ? missing(fields.reward) : this.#number('reward', fields.reward));
    for (const field of OPTIONAL) {
      const value = fields[field];
      const column = this.#columns[field];
      if ((value === undefined) !== (column === undefined) && row > 0) {
        this.#fail(
          value === undefined
            ? `has no ${field}, but the lines before have one`
            : `has the field ${field}, but the lines before have none`,
        );
      }
      if (value === undefined) continue;
      const found =
        field === 'episode' ? this.#episodes.numberOf(this.#name(field, value)) : this.#number(field, value);
      if (column === undefined) this.#columns[field] = [found];
      else column.push(found);
    }
    this.#lineOfRow.push(this.#line);
  }

  /** @throws FileError when there was no row */
  finish(): FilterSource {
    if (this.#rewards.length === 0) {
      throw new FileError(
        { path: this.#path },
        'holds no rewards: expected lines such as "3, 0.5" or {"group": 3, "reward": 0.5}',
      );
    }
    const { outcome, episode, turn, entropy, length } = this.#columns;
    return {
      path: this.#path,
      input: {
        rewards: { values: this.#rewards, groups: this.#groupOfRow, episodes: episode, turns: turn },
        outcomes: outcome,
        entropies: entropy,
        lengths: length,
      },
      groupOfRow: this.#groupOfRow,
      nameOf: (group) => this.#groups.ids[group as number] as string,
      // Rows count from 0 and skip headings and blank lines; the row mask goes by them.
      nameOfRow: (row) => `row ${row} (line ${this.#lineOfRow[row]})`,
      nameOfReward: (value) => (value === undefined ? 'empty' : String(value)),
    };
  }

  #json(line: string): Partial<Record<Field, unknown>> {
    let value: unknown;
    try {
      value = parseJsonLine(line);
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      return this.#fail(`is no JSON: ${problem}; each row has to be on one line of its own (${ONE_A_LINE})`);
    }
    if (Array.isArray(value)) {
      if (typeof value[0] === 'object' && value[0] !== null) {
        this.#fail(`is a list of rows: write each on a line of its own (${ONE_A_LINE})`);
      }
      return { group: value[0], reward: value[1], outcome: value[2] };
    }
    const fields: Partial<Record<Field, unknown>> = {};
    for (const [field, names] of Object.entries(NAMES) as [Field, readonly string[]][]) {
      const name = names.find((known) => Object.hasOwn(value as object, known));
      const found = name === undefined ? undefined : (value as Record<string, unknown>)[name];
      if ((found !== null || field === 'reward') && found !== undefined) fields[field] = found;
    }
    for (const field of REQUIRED) {
      if (fields[field] !== undefined) continue;
      const there = printable(Object.keys(value as object).join(', '));
      this.#fail(`has no ${field}: expected it as ${namesOf(field)}; there are ${there === '' ? 'no fields' : there}`);
    }
    return fields;
  }

  /**
   * What separates the fields of the first line, and then of all: what makes a heading of it, else the only delimiter
   * in it. With two of them, as where commas stand for decimal points, one would be taken for text, and groups be other
   * groups.
   */
  #delimiterOf(line: string): Delimiter {
    const found = delimitersIn(line);
    const ofHeading = found.find((delimiter) => {
      const names = separatedFields(line, delimiter).map((name) => fieldNamed(name.toLowerCase()));
      return REQUIRED.every((field) => names.includes(field));
    });
    if (ofHeading !== undefined) return ofHeading;
    const [first = ' ', second] = found;
    const isAmbiguous = second !== undefined || (first === ',' && /^\S+\s+[+-]?\d+,\d+$/.test(line));
    if (!isAmbiguous) return first;
    const others =
      second === undefined
        ? 'spaces'
        : found
            .slice(1)
            .map((delimiter) => DELIMITER_NAMES[delimiter])
            .join(' and ');
    return this.#fail(
      `has ${DELIMITER_NAMES[first]} and ${others}, and nothing says which separate its fields: say so with --delimiter; ` +
        `decimal commas are not read: write 0.5 for 0,5 ("${printable(line)}")`,
    );
  }

  /** Whether it is one: it names groups and rewards. */
  #heading(line: string): boolean {
    const names = separatedFields(line, this.#delimiter).map((name) => name.toLowerCase());
    const order = names.map(fieldNamed);
    const missing = REQUIRED.filter((field) => !order.includes(field));
    if (missing.length > 0) {
      const isWords = names.every((name) => typeof numberOf(name) === 'string');
      if (isWords && order.some((field) => field !== undefined)) {
        const wanted = missing.map((field) => `${field} (${namesOf(field)})`).join(' and ');
        this.#fail(`is a heading without ${wanted}: "${printable(line)}"`);
      }
      return false;
    }
    const unknown = order.indexOf(undefined);
    if (unknown >= 0) {
      this.#fail(`names a column "${printable(names[unknown] as string)}": known are ${Object.keys(NAMES).join(', ')}`);
    }
    if (new Set(order).size < order.length) this.#fail(`names a column twice: "${printable(line)}"`);
    this.#order = order as Field[];
    return true;
  }

  #separated(line: string): Partial<Record<Field, unknown>> {
    const values = separatedFields(line, this.#delimiter);
    const order = this.#order ?? (['group', 'reward', 'outcome'] as const).slice(0, Math.max(2, values.length));
    if (values.length !== order.length) {
      const expected =
        this.#order === undefined ? 'group, reward and perhaps outcome' : `${order.join(', ')}, as its heading`;
      const between = DELIMITER_NAMES[this.#delimiter ?? ' '];
      this.#fail(
        `has ${counted(values.length, 'fields')}, expected ${expected}, with ${between} between them: "${printable(line)}"`,
      );
    }
    return Object.fromEntries(order.map((field, at) => [field, values[at]]));
  }

  #name(field: Field, value: unknown): string {
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
      this.#fail(`has the ${field} ${value}, which is too large to be exact: write its digits, or a name`);
    }
    if (typeof value === 'number' || (typeof value === 'string' && value !== '')) return String(value);
    if (Array.isArray(value)) this.#fail(`has a list as ${field}: write a line for each rollout`);
    return this.#fail(`has no ${field}: expected a number or a name`);
  }

  #number(field: Field, value: unknown): number {
    if (typeof value === 'boolean') return value ? 1 : 0;
    const number = typeof value === 'string' && value !== '' ? numberOf(value) : value;
    // NaN and infinities are numbers: what becomes of them is the filter's policy.
    if (typeof number === 'number') return number;
    if (value === undefined) return this.#fail(`has no ${field}: expected a number`);
    if (Array.isArray(value)) this.#fail(`has a list as ${field}: write a line for each rollout`);
    if (typeof value === 'string' && /^[+-]?\d*,\d+$/.test(value)) {
      this.#fail(`has the ${field} "${value}": decimal commas are not read, write ${value.replace(',', '.')}`);
    }
    const isHeading = this.#line === 1 && typeof value === 'string';
    const hint = isHeading
      ? `, or a heading that names group (${namesOf('group')}) and reward (${namesOf('reward')})`
      : '';
    return this.#fail(`has the ${field} ${printable(JSON.stringify(value))}: expected a number${hint}`);
  }

  #fail(problem: string): never {
    throw new FileError({ path: this.#path }, `line ${this.#line} ${problem}`);
  }
}

/** Missing, not left out: a null of JSON, an empty field of a table. */
function isMissing(value: unknown): value is null | '' {
  return value === null || value === '';
}

/** As the filter takes it. */
function missing(value: null | ''): null | undefined {
  return value === null ? null : undefined;
}

/** Also as Python prints them: nan, inf, -inf. */
function numberOf(text: string): number | string {
  if (/^[+-]?(nan)$/i.test(text)) return Number.NaN;
  const infinite = /^([+-]?)inf(inity)?$/i.exec(text);
  if (infinite !== null) return infinite[1] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  const value = Number(text);
  return Number.isNaN(value) ? text : value;
}

const DELIMITER_NAMES: Readonly<Record<Delimiter, string>> = {
  ',': 'commas',
  ';': 'semicolons',
  '\t': 'tabs',
  ' ': 'spaces',
};

/** What makes lines of a JSON file with all rows in one list. */
const ONE_A_LINE = "jq -c '.[]' does it";

function fieldNamed(name: string): Field | undefined {
  const fields = Object.entries(NAMES) as [Field, readonly string[]][];
  return fields.find(([, names]) => names.includes(name))?.[0];
}
