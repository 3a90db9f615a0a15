// A row that holds several samples of its prompt: a list of responses, beside lists of what belongs to each.
import { printable } from '../../../checks/words.js';
import { Fields, LineProblem } from '../fields.js';

/** Columns of which one value may be a list: of tokens, of log-probs, or of messages. */
const LISTS: ReadonlySet<string> = new Set(['prompt', 'prompt_tokens', 'tokens', 'logprobs', 'entropy', 'environment']);

/** Columns that distinguish samples. */
const IDS: ReadonlySet<string> = new Set(['sample', 'episode']);

/**
 * The row itself, or a row an element where its responses are a list: other lists of that length are split too, and
 * values that are not lists are repeated.
 * @param names the name in the file of each of our columns
 * @throws {LineProblem} if a list has another length
 */
export function samplesIn(row: Fields, names: Readonly<Record<string, string | undefined>>): readonly Fields[] {
  const { output, tokens } = names;
  if (output !== undefined && row.isText(output)) return [row];
  const lead = output !== undefined && row.value(output) !== undefined ? output : tokens;
  if (lead === undefined || (lead === tokens && !row.isNested(lead))) return [row];
  const outputs = row.value(lead);
  // A list of objects is a chat: one response.
  if (!Array.isArray(outputs) || outputs.some((one) => isObject(one))) return [row];
  const columns = new Map<string, readonly unknown[]>();
  for (const [own, name] of Object.entries(names)) {
    if (name === undefined || name === lead) continue;
    const value = row.value(name);
    if (IDS.has(own) && value !== undefined && !Array.isArray(value)) {
      columns.set(
        name,
        outputs.map((_, at) => `${row.id(name)}/${at}`),
      );
    }
    if (!Array.isArray(value)) continue;
    if (value.length === 0) {
      // Nothing is said of any.
      if (!LISTS.has(own)) columns.set(name, value);
      continue;
    }
    const isOne = LISTS.has(own) && (own === 'prompt' ? value.every(isObject) : !goesAlong(own, value, outputs.length));
    if (isOne && !['tokens', 'logprobs'].includes(own)) continue;
    if (isOne || value.length !== outputs.length) {
      const problem = `is a list of ${value.length}, beside ${printable(lead)} of ${outputs.length} responses: expected one for each`;
      throw new LineProblem(`${printable(name)} ${problem}`);
    }
    columns.set(name, value);
  }
  columns.set(lead, outputs);
  return outputs.map((_, at) => new SampleFields(row, columns, at));
}

/** Whether a list has a value for each response, and is not one value. */
function goesAlong(own: string, value: readonly unknown[], count: number): boolean {
  if (own === 'entropy' || own === 'environment') return value.length === count;
  return value.some((one) => Array.isArray(one) || ArrayBuffer.isView(one));
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);
}

class SampleFields extends Fields {
  constructor(
    private readonly row: Fields,
    private readonly columns: ReadonlyMap<string, readonly unknown[]>,
    private readonly at: number,
  ) {
    super();
  }

  value(name: string): unknown {
    const own = this.columns.get(name);
    return own === undefined ? this.row.value(name) : (own[this.at] ?? undefined);
  }

  override id(name: string): string | undefined {
    return this.columns.has(name) ? super.id(name) : this.row.id(name);
  }
}
