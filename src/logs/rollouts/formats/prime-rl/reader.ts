// prime-rl: an episode a line, of training and evaluations alike: monitors/file/traces/stream/NNNNN.jsonl, sealed as
// .zst; in older ones rollouts/step_{N}/{train|eval}/{all|effective}/traces.jsonl. verifiers v1 writes the same as
// traces.jsonl of an evaluation. An episode has traces, a trace a tree of nodes, a path from root to leaf a sample.
// Absent keys are null. `logprobs` are compact: one for each true of `mask`. prime-rl 048a6e23
// (src/prime_rl/monitors/file), verifiers 0.4.0 (verifiers/v1/episode.py, trace.py).

import { type Fields, fieldsOf, LineProblem, tokensOf } from '../../fields.js';
import { foldersOf, type Place, placeByFolder, type RolloutFormat, rollout } from '../../format.js';
import { messagesOf, promptText, spokenBy } from '../../messages.js';
import type { LoggedRollout } from '../../rollout.js';
import { environmentIn, objectIn, taskEnvironment } from '../../rows/environments.js';
import { type BranchTokens, TraceAnnotations } from './annotations.js';

interface Node {
  /** Its number in the trace. */
  readonly at: number;
  readonly parent: number | undefined;
  readonly message: ReturnType<typeof messagesOf>[number];
  readonly sampled: boolean;
  readonly tokens: Int32Array | undefined;
  readonly mask: readonly boolean[];
  readonly logprobs: Float64Array | undefined;
  readonly trainerLogprobs: Float64Array | undefined;
  readonly entropies: Float64Array | undefined;
  readonly advantages: Float64Array | undefined;
  readonly finish: string | undefined;
}

export const reader: RolloutFormat = {
  name: 'prime-rl',
  containers: ['json-lines'],
  needs: 'traces (each with nodes)',
  setting:
    'on by default; `OUTPUT_DIR/monitors/file/traces`, in older ones `OUTPUT_DIR/rollouts`; evaluations of verifiers v1: `traces.jsonl`',
  gives:
    'texts, token ids, log-probs, rewards, groups; of its annotations advantages, log-probs of the trainer, entropies',
  environment:
    "`env` (its `name`, else its `id`), `env_name` or `env_id`: of the row, of `run.work`, of `info`; else the task's",
  recognises: (keys, path) => keys.has('traces') && (hasNodes(keys) || /traces\.jsonl/.test(path)),
  fields: ['id', 'group', 'run', 'task', 'traces', 'env', 'env_name', 'env_id', 'info'],
  stepField: 'run.work.step',
  // As prime-rl tells the kind of an episode.
  splits: [
    { field: 'run', of: (line) => kindOf(line.object('run').object('work').value('type')) },
    {
      field: 'traces',
      of: (line) =>
        line
          .list('traces')
          ?.map(kindOfTrace)
          .find((kind) => kind !== undefined),
    },
    { field: 'run', of: (line) => kindOf(line.object('run').value('type')) },
  ],
  place: placeOf,
  rows: (line) => {
    const work = line.object('run').object('work');
    const group = line.object('group').id('id');
    const episode = line.id('id');
    const step = work.count('step');
    const named = environmentIn(line, work, objectIn(line, 'info'));
    const rows: (LoggedRollout & { annotated: BranchTokens })[] = [];
    for (const [at, value] of (line.list('traces') ?? []).entries()) {
      const trace = fieldsOf(value, `traces[${at}]`);
      // A judge or a simulated user beside the policy is not what is trained.
      if (trace.object('agent').flag('trainable') === false) continue;
      const id = trace.id('id') ?? `${episode}_${at}`;
      const environment = named ?? environmentIn(objectIn(trace, 'info')) ?? taskEnvironment(line);
      for (const [index, branch] of branchesOf(trace, `traces[${at}]`).entries()) {
        const row = rowOf(branch, trace, { step, group, episode, id, environment });
        const advantage = row.advantage ?? objectIn(trace, 'info')?.number('advantage');
        rows.push({ ...row, ...(advantage !== undefined && { advantage }), annotated: tokensIn(branch, id, index) });
      }
    }
    return rows;
  },
  absent: { outcome: "prime-rl's traces have rewards alone" },
  notes: [],
  // Copies of older logs, and what lies beside the stream of newer ones.
  annotations: {
    folder: (path) =>
      /^(.*[/\\]traces[/\\])stream(?:[/\\][^/\\]*|\.jsonl[^/\\]*)$/.exec(path)?.[1]?.concat('annotations'),
    open: TraceAnnotations.open,
  },
  passesOver: (path) =>
    foldersOf(path).some(({ name }) => name === 'effective') ||
    /\/monitors\/file\/traces\/(?!stream(\/|\.jsonl))/.test(path),
};

function hasNodes(keys: ReadonlySet<string>): boolean {
  return keys.has('env') || keys.has('task') || keys.has('group');
}

function kindOf(value: unknown): string | undefined {
  return value === 'train' || value === 'eval' ? value : undefined;
}

function kindOfTrace(trace: unknown): string | undefined {
  return kindOf((trace as { info?: { kind?: unknown } | null } | null)?.info?.kind);
}

/** Folders between that of the run and the chunks of its stream, the innermost first. */
const STREAM = ['stream', 'traces', 'file', 'monitors'];

/** Of older logs: …/rollouts/step_N/train/all/traces.jsonl. The run is the folder that holds these. */
function placeOf(path: string): Place {
  const folders = foldersOf(path);
  let above = 0;
  for (const name of STREAM) if (folders[above]?.name === name) above++;
  if (above > 0) return { runDirectory: folders[above]?.path ?? '.' };
  const isEval = folders.slice(0, 2).some(({ name }) => name === 'eval');
  return placeByFolder(path, /^step_(\d+)$/, { own: /^rollouts$/, depth: 3, ...(isEval && { split: 'eval' }) });
}

/** One sample: a path from the root to a leaf. */
interface Branch {
  readonly nodes: readonly Node[];
  readonly leaf: number;
}

/** For what is said of the branch later. */
function tokensIn({ nodes }: Branch, trace: string, branch: number): BranchTokens {
  const found = { nodes: [] as number[], ends: [] as number[], counts: [] as number[] };
  const places: number[] = [];
  let end = 0;
  for (const { at, tokens = new Int32Array(0), mask } of nodes) {
    const before = places.length;
    for (const place of tokens.keys()) if (mask[place] === true) places.push(end + place);
    end += tokens.length;
    if (places.length === before) continue;
    found.nodes.push(at);
    found.ends.push(end);
    found.counts.push(places.length - before);
  }
  return { trace, branch, ...found, places: Int32Array.from(places) };
}

function branchesOf(trace: Fields, name: string): Branch[] {
  const nodes = (trace.list('nodes') ?? []).map((value, at) => nodeOf(value, `${name}.nodes[${at}]`, at));
  const isParent = new Set(nodes.map(({ parent }) => parent));
  const branches: Branch[] = [];
  for (const [leaf, node] of nodes.entries()) {
    if (isParent.has(leaf)) continue;
    const path: Node[] = [];
    // A parent comes before its children: that is checked, so the path ends.
    for (
      let at: Node | undefined = node;
      at !== undefined;
      at = at.parent === undefined ? undefined : nodes[at.parent]
    ) {
      path.push(at);
    }
    branches.push({ nodes: path.reverse(), leaf });
  }
  return branches;
}

function nodeOf(value: unknown, name: string, at: number): Node {
  const node = fieldsOf(value, name);
  const parent = node.count('parent');
  if (parent !== undefined && parent >= at)
    throw new LineProblem(`${name}.parent is ${parent}, expected an earlier node`);
  const tokens = node.value('token_ids');
  const [message] = messagesOf([node.value('message') ?? { content: '' }], `${name}.message`);
  return {
    at,
    parent,
    message: message as Node['message'],
    sampled: node.flag('sampled') ?? false,
    tokens: tokens === undefined ? undefined : tokensOf(tokens, `${name}.token_ids`),
    mask: (node.list('mask') ?? []).map(Boolean),
    logprobs: node.floats('logprobs'),
    trainerLogprobs: node.floats('trainer_logprobs'),
    entropies: node.floats('entropies'),
    advantages: node.floats('advantages'),
    finish: node.text('finish_reason'),
  };
}

function rowOf(
  { nodes, leaf }: Branch,
  trace: Fields,
  {
    step,
    group,
    episode,
    id,
    environment,
  }: { [Of in 'step' | 'group' | 'episode' | 'environment']: LoggedRollout[Of] | undefined } & { id: string },
): LoggedRollout {
  const first = nodes.findIndex(({ sampled }) => sampled);
  const before = first < 0 ? nodes : nodes.slice(0, first);
  const turns = nodes.filter(({ sampled }) => sampled);
  const sampled = sampledTokens(nodes, id);
  return rollout({
    step,
    group,
    prompt: promptText(before.map(({ message }) => message)),
    ...(turns.length > 0 && spokenBy(turns.map(({ message }) => message))),
    ...sampled,
    reward: rewardOf(trace),
    truncated: truncatedOf(trace, turns),
    sample: `${id}/${leaf}`,
    episode,
    environment,
  });
}

/** The tokens whose mask is true, of all nodes: what tools and templates added is left out. */
function sampledTokens(nodes: readonly Node[], id: string): Partial<LoggedRollout> {
  if (!nodes.some(({ tokens }) => tokens !== undefined)) return {};
  const prompt: number[] = [];
  const tokens: number[] = [];
  for (const { tokens: ids = new Int32Array(0), mask } of nodes) {
    const masked = ids.filter((_, at) => mask[at] === true);
    if (tokens.length === 0 && masked.length === 0) prompt.push(...ids);
    else if (tokens.length === 0) prompt.push(...ids.subarray(0, mask.indexOf(true)));
    for (const token of masked) tokens.push(token);
  }
  const [logprobs, trainerLogprobs, entropies, advantages] = (
    ['logprobs', 'trainerLogprobs', 'entropies', 'advantages'] as const
  ).map((name) => sampledValues(nodes, name, id));
  return rollout({
    promptTokens: Int32Array.from(prompt),
    tokens: Int32Array.from(tokens),
    length: tokens.length,
    logprobs,
    trainerLogprobs,
    entropy: meanOf(entropies),
    advantage: meanOf(advantages),
  });
}

function meanOf(values: Float64Array | undefined): number | undefined {
  if (values === undefined || values.length === 0) return undefined;
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Of the sampled tokens, one each; undefined where a node with some has none, and where no node has any. */
function sampledValues(
  nodes: readonly Node[],
  name: 'logprobs' | 'trainerLogprobs' | 'entropies' | 'advantages',
  id: string,
): Float64Array | undefined {
  const found: number[] = [];
  for (const node of nodes) {
    const masked = (node.tokens ?? new Int32Array(0)).filter((_, at) => node.mask[at] === true).length;
    if (masked > 0 && node[name] === undefined) return undefined;
    for (const value of compact(node[name], node, masked, `${name} of trace ${id}`)) found.push(value);
  }
  return nodes.some((node) => node[name] !== undefined) ? Float64Array.from(found) : undefined;
}

/**
 * One value for each true of the mask. A list as long as the mask would put other tokens' values beside them: it is cut
 * to those.
 */
function compact(values: Float64Array | undefined, node: Node, masked: number, what: string): Float64Array {
  if (values === undefined || values.length === masked) return values ?? new Float64Array(0);
  if (values.length === node.mask.length) return values.filter((_, at) => node.mask[at] === true);
  throw new LineProblem(`${what}: ${values.length} values for ${masked} sampled tokens`);
}

/** Σ score · weight. */
function rewardOf(trace: Fields): number | undefined {
  const rewards = trace.value('rewards');
  if (rewards === undefined) return undefined;
  const named = fieldsOf(rewards, 'rewards');
  let total: number | undefined;
  for (const name of named.names) {
    const one = named.object(name);
    const score = one.number('score');
    if (score !== undefined) total = (total ?? 0) + score * (one.number('weight') ?? 1);
  }
  return total;
}

/** Why verifiers ends a trace that is not through; `context_length` in older ones. */
const CUTTING = [
  'max_turns',
  'max_input_tokens',
  'max_output_tokens',
  'max_total_tokens',
  'compaction_failed',
  'context_length',
];

/** A limit ended it, or the last call that succeeded was cut: in newer logs among the calls, in older ones at the node. */
function truncatedOf(trace: Fields, turns: readonly Node[]): boolean | undefined {
  const stop = trace.text('stop_condition');
  if (stop !== undefined && CUTTING.includes(stop)) return true;
  const calls = (trace.list('calls') ?? []).map((call, at) => fieldsOf(call, `calls[${at}]`));
  const last = calls.findLast((call) => call.value('error') === undefined);
  const reason = last?.text('finish_reason') ?? turns.at(-1)?.finish;
  return reason === undefined && stop === undefined ? undefined : reason === 'length';
}
