// docs/reference/text-figures.md written down once more, slowly and plainly: what the engine's text figures are tested
// against.

export interface ReferenceRows {
  tokens: readonly (readonly (number | string)[])[];
  groups: readonly (number | string)[];
  /** The prompt's tokens of each group; undefined: not known. */
  prompts?: ReadonlyMap<number | string, readonly (number | string)[]> | undefined;
}

type Counts = Map<string, number>;

const mask = (1n << 64n) - 1n;

function rowKey(tokens: readonly (number | string)[], group: string, copy: number): bigint {
  const escaped = group.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
  let h = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode([...tokens, escaped, copy].join('\n'))) {
    h = ((h ^ BigInt(byte)) * 0x100000001b3n) & mask;
  }
  h = ((h ^ (h >> 30n)) * 0xbf58476d1ce4e5b9n) & mask;
  h = ((h ^ (h >> 27n)) * 0x94d049bb133111ebn) & mask;
  return h ^ (h >> 31n);
}

function featuresOf(tokens: readonly (number | string)[]): Counts {
  const counts: Counts = new Map();
  const add = (feature: string): void => void counts.set(feature, (counts.get(feature) ?? 0) + 1);
  if (tokens.length === 0) return counts;
  for (const token of tokens) add(`1 ${token}`);
  const marked = ['^', ...tokens.map((token) => ` ${token}`), '$'];
  for (let i = 1; i < marked.length; i++) add(`2 ${marked[i - 1]}\n${marked[i]}`);
  return counts;
}

function addTo(into: Counts, from: Counts): void {
  for (const [feature, count] of from) into.set(feature, (into.get(feature) ?? 0) + count);
}

const totalOf = (counts: Counts): number => [...counts.values()].reduce((sum, count) => sum + count, 0);
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

interface Row {
  tokens: readonly (number | string)[];
  group: string;
  key: bigint;
  prompt: number;
  place: number;
  position: number;
  fold: number;
  weight: number;
  counts: Counts;
  features: number;
}

/** One used row, and what each of its tokens is to S under its own prompt less the mean over the others. */
export interface ReferenceRow {
  tokens: readonly (number | string)[];
  group: string;
  specificity: number;
  nats: number[];
}

/** What there is of one prompt, with entries by the id of the other. */
export interface ReferencePrompt {
  rows: number;
  mi: number;
  retrieval: number;
  posterior: Map<string, number>;
  nats: Map<string, number>;
}

/**
 * @param ofPrompts is filled, by the id of the group
 * @param ofRows is filled, in the order of keys
 * @returns figures by their names without `text/`; undefined where there are none
 */
export function textReference(
  given: ReferenceRows,
  ofPrompts = new Map<string, ReferencePrompt>(),
  ofRows: ReferenceRow[] = [],
): Record<string, number> | undefined {
  const filled = given.tokens.flatMap((tokens, at) =>
    tokens.length > 0 ? [{ tokens, id: given.groups[at] as number | string }] : [],
  );
  const sizes = new Map<number | string, number>();
  for (const { id } of filled) sizes.set(id, (sizes.get(id) ?? 0) + 1);
  const several = [...sizes.values()].filter((size) => size >= 2).length;
  const byPrompts = several < 2;
  if (byPrompts && (given.prompts === undefined || sizes.size < 2)) return undefined;
  const ids = [...sizes.keys()].filter((id) => byPrompts || (sizes.get(id) as number) >= 2);
  const copies = new Map<string, number>();
  const rows: Row[] = [];
  for (const { tokens, id } of filled) {
    const prompt = ids.indexOf(id);
    if (prompt < 0) continue;
    const text = JSON.stringify([id, tokens]);
    const copy = copies.get(text) ?? 0;
    copies.set(text, copy + 1);
    const counts = featuresOf(tokens);
    const key = rowKey(tokens, String(id), copy);
    rows.push({
      tokens,
      group: String(id),
      key,
      prompt,
      place: 0,
      position: 0,
      fold: 0,
      weight: 0,
      counts,
      features: totalOf(counts),
    });
  }
  rows.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  const R = rows.length;
  const P = ids.length;
  const prompts = ids.map((_, j) => rows.filter((row) => row.prompt === j));
  const F = byPrompts ? 1 : Math.min(8, ...prompts.map((of) => of.length));
  rows.forEach((row, position) => {
    row.position = position;
  });
  for (const of of prompts) {
    of.forEach((row, place) => {
      row.place = place;
      row.fold = place % F;
    });
    for (const row of of) row.weight = 1 / (P * F * of.filter(({ fold }) => fold === row.fold).length);
  }
  const all: Counts = new Map();
  for (const row of rows) addTo(all, row.counts);
  const allTotal = totalOf(all);
  const promptCounts =
    given.prompts === undefined ? undefined : ids.map((id) => featuresOf(given.prompts?.get(id) ?? []));
  type Trained = readonly { counts: Counts; total: number }[];
  const trainedBy = (trains: (row: Row) => boolean): Trained =>
    prompts.map((of) => {
      const counts: Counts = new Map();
      for (const row of of) if (trains(row)) addTo(counts, row.counts);
      return { counts, total: totalOf(counts) };
    });
  const logOf = (feature: string, j: number, trained: Trained): number => {
    const b = (all.get(feature) as number) / allTotal;
    const { counts, total } = trained[j] as Trained[number];
    const q = byPrompts ? b : (counts.get(feature) ?? 0) / total;
    if (promptCounts === undefined) return Math.log(q / 2 + b / 2);
    const own = promptCounts[j] as Counts;
    const d = own.size === 0 ? 0 : (own.get(feature) ?? 0) / totalOf(own);
    return Math.log(q / 3 + d / 3 + b / 3);
  };
  const scoresFrom = (trains: (row: Row) => boolean, tested: readonly Row[]): number[][] => {
    const trained = trainedBy(trains);
    return tested.map((row) =>
      prompts.map((_, j) => [...row.counts].reduce((sum, [of, count]) => sum + count * logOf(of, j, trained), 0)),
    );
  };
  const S: number[][] = new Array(R);
  for (let fold = 0; fold < F; fold++) {
    const tested = rows.filter((row) => row.fold === fold);
    scoresFrom((row) => row.fold !== fold, tested).forEach((scores, at) => {
      S[(tested[at] as Row).position] = scores;
    });
  }
  const out: Record<string, number> = { rows_used: R, prompts_used: P };

  const epsilons = [
    1 / R,
    ...[0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1].filter((e) => e > 1 / R),
  ];
  const grid = [1, 2, 4, 8, 16, 32, 64, 128, 256].flatMap((tau) => epsilons.map((epsilon) => ({ tau, epsilon })));
  const value = (row: Row, { tau, epsilon }: { tau: number; epsilon: number }): number => {
    const scores = S[row.position] as number[];
    const top = Math.max(...scores);
    const sum = scores.reduce((total, score) => total + Math.exp((score - top) / tau), 0);
    const own = Math.exp(((scores[row.prompt] as number) - top) / tau) / sum;
    return Math.log((1 - epsilon) * own + epsilon / P) + Math.log(P);
  };
  const best = [0, 1].map((parity) => {
    const half = rows.filter((row) => row.position % 2 === parity);
    const weights = half.reduce((sum, { weight }) => sum + weight, 0);
    let chosen = grid[0] as { tau: number; epsilon: number };
    let chosenMean = Number.NEGATIVE_INFINITY;
    for (const point of grid) {
      const at = half.reduce((sum, row) => sum + row.weight * value(row, point), 0) / weights;
      if (at > chosenMean + 1e-12) [chosen, chosenMean] = [point, at];
    }
    return chosen;
  });
  const values = rows.map((row) => value(row, best[1 - (row.position % 2)] as { tau: number; epsilon: number }));
  const bound = rows.reduce((sum, row, at) => sum + row.weight * (values[at] as number), 0);
  const between = prompts.reduce(
    (sum, of) => sum + of.reduce((part, row) => part + row.weight * ((values[row.position] as number) - bound), 0) ** 2,
    0,
  );
  out.mi_bound = bound;
  out.mi_bound_standard_error = Math.max(
    Math.sqrt((P / (P - 1)) * between),
    Math.log(P) * Math.max(...rows.map(({ weight }) => weight)),
  );

  const retrieved = (row: Row, k: number): number => {
    const scores = S[row.position] as number[];
    const own = scores[row.prompt] as number;
    const near = 1e-9 * (1 + Math.abs(own));
    const equal = scores.filter((score) => Math.abs(score - own) <= near).length;
    const above = scores.filter((score) => score > own + near).length;
    return Math.min(Math.max((k - above) / equal, 0), 1);
  };
  const share = (k: number): number => rows.reduce((sum, row) => sum + row.weight * retrieved(row, k), 0);
  for (const k of [1, 2, 4, 8]) if (k < P) out[k === 1 ? 'retrieval_accuracy' : `retrieval_accuracy@${k}`] = share(k);
  out.retrieval_chance_level = 1 / P;
  prompts.forEach((of, prompt) => {
    const mean = (figure: (row: Row) => number): number =>
      of.reduce((sum, row) => sum + P * row.weight * figure(row), 0);
    const at = (p: number) => (row: Row) =>
      Math.exp(value({ ...row, prompt: p }, best[1 - (row.position % 2)] as { tau: number; epsilon: number }));
    const id = (p: number): string => String(ids[p]);
    ofPrompts.set(id(prompt), {
      rows: of.length,
      mi: mean((row) => values[row.position] as number),
      retrieval: mean((row) => retrieved(row, 1)),
      posterior: new Map(ids.map((_, p) => [id(p), mean((row) => at(p)(row) / P)])),
      nats: new Map(ids.map((_, p) => [id(p), mean((row) => Math.log(at(p)(row)))])),
    });
  });
  const others = (scores: readonly number[], own: number): number =>
    (scores.reduce((sum, score) => sum + score, 0) - (scores[own] as number)) / (P - 1);
  out.specificity = rows.reduce((sum, row) => {
    const scores = S[row.position] as number[];
    return sum + (row.weight * ((scores[row.prompt] as number) - others(scores, row.prompt))) / row.features;
  }, 0);

  for (const row of rows) {
    const trained = trainedBy(({ fold }) => fold !== row.fold);
    const partOf = (feature: string): number => {
      const logs = prompts.map((_, j) => logOf(feature, j, trained));
      return (logs[row.prompt] as number) - others(logs, row.prompt);
    };
    const marked = ['^', ...row.tokens.map((token) => ` ${token}`), '$'];
    const pairs = marked.slice(1).map((token, at) => partOf(`2 ${marked[at]}\n${token}`));
    const last = row.tokens.length - 1;
    const nats = row.tokens.map((token, at) => {
      const [before, behind] = [pairs[at] as number, pairs[at + 1] as number];
      return partOf(`1 ${token}`) + (at === 0 ? before : before / 2) + (at === last ? behind : behind / 2);
    });
    const specificity = nats.reduce((sum, part) => sum + part, 0) / row.features;
    ofRows.push({ tokens: row.tokens, group: row.group, specificity, nats });
  }

  const tested = rows.filter(({ place }) => byPrompts || place % 2 === 1);
  out.half_split_statistic = scoresFrom(({ place }) => place % 2 === 0, tested).reduce((sum, scores, at) => {
    const row = tested[at] as Row;
    return sum + ((scores[row.prompt] as number) - mean(scores)) / row.features;
  }, 0);

  const grams = (row: Row): string[] => {
    const found: string[] = [];
    for (let i = 0; i + 4 <= row.tokens.length; i++) found.push(JSON.stringify(row.tokens.slice(i, i + 4)));
    return found;
  };
  const rowsHolding = new Map<string, Row[]>();
  for (const row of rows) {
    for (const gram of new Set(grams(row))) rowsHolding.set(gram, [...(rowsHolding.get(gram) ?? []), row]);
  }
  const least = Math.max(3, Math.ceil(P / 2));
  const isTemplate = (gram: string): boolean =>
    new Set(rowsHolding.get(gram)?.map(({ prompt }) => prompt)).size >= least;
  out.template_share = mean(
    rows.map((row) => {
      const covered = new Set<number>();
      grams(row).forEach((gram, at) => {
        if (isTemplate(gram)) for (let i = at; i < at + 4; i++) covered.add(i);
      });
      return covered.size / row.tokens.length;
    }),
  );
  const withGrams = rows.filter(({ tokens }) => tokens.length >= 4);
  const novelty = withGrams
    .filter((row) => (prompts[row.prompt] as Row[]).length >= 2)
    .map((row) => {
      const own = grams(row);
      const novel = own.filter((gram) =>
        rowsHolding.get(gram)?.every((other) => other === row || other.prompt !== row.prompt),
      );
      return novel.length / own.length;
    });
  if (novelty.length > 0) out.sibling_novelty = mean(novelty);
  if (withGrams.length > 0)
    out.repetition = mean(withGrams.map((row) => 1 - new Set(grams(row)).size / grams(row).length));
  const same = (row: Row, other: Row): boolean => JSON.stringify(row.tokens) === JSON.stringify(other.tokens);
  const shareOf = (isSo: (row: Row) => boolean): number => rows.filter(isSo).length / R;
  out.duplicate_share = shareOf((row) => rows.some((o) => o !== row && o.prompt === row.prompt && same(row, o)));
  out.duplicate_across_share = shareOf((row) => rows.some((o) => o.prompt !== row.prompt && same(row, o)));
  return out;
}
