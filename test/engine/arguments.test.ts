// Arguments that no typed caller gives: each is refused by name, with no bare TypeError and no result that looks right.
import { constants } from 'node:buffer';
import { afterAll, describe, expect, it } from 'vitest';
import { shown } from '../../src/checks/words.js';
import { filterGate } from '../../src/filter/filter-gate.js';
import * as collapsar from '../../src/index.js';
import { RunningState } from '../../src/metrics/reporting/running-state.js';
import { completeSums } from '../../src/metrics/sampled/pair-scores.js';
import { turnsOfPrompts } from '../../src/metrics/sampled/prompt-turns.js';
import { readEvidence } from '../../src/verdicts/step-reading.js';
import { levels } from '../support/package-levels.js';

const { ArgumentError, openEngine } = collapsar;
const engine = await openEngine({ device: 'cpu', threads: 1 });
afterAll(() => engine.dispose());

const groups = [0, 1, 2, 0, 1, 2];
const lengths = [1, 2, 3, 1, 2, 3];
const sums = { data: new Float64Array(18).fill(-1), dtype: 'float64', shape: [6, 3] };
const noPairs = { rows: new Int32Array(0), columns: new Int32Array(0), sums: new Float64Array(0) };
const fourScores = { data: new Float64Array(4), dtype: 'float64', shape: [2, 2] } as const;
const plan = levels['collapsar/sampling'].planScores({ groups, lengths }, { negatives: 3 });
const sinkOptions = { prompts: 1, rows: 1, lengths: [1] };

function transferred<T extends ArrayBufferView>(array: T): T {
  structuredClone(array.buffer, { transfer: [array.buffer as ArrayBuffer] });
  return array;
}

// biome-ignore lint/suspicious/noExplicitAny: what the types forbid is what is tested
const given: any = Object.assign(
  { RunningState, completeSums, filterGate, readEvidence, turnsOfPrompts },
  collapsar,
  ...Object.values(levels),
);

const monitorStep = (labels: object) => new given.Monitor({ engine }).step(1, { groups, lengths, ...labels });
const step = () => ({ logprobs: { data: new Float32Array(1), dtype: 'float32', shape: [1, 1, 1] }, ...oneRow() });
const oneRow = () => ({ lengths: Int32Array.of(1), group: Int32Array.of(0) });

const openStep = () => new given.Monitor({ engine }).step(1, { groups, lengths });

/** A function that reads files, with what it needs beside the options that are tested. */
function reading(name: string, options: object): unknown {
  const calls: Record<string, () => unknown> = {
    listSteps: () => given.listSteps('a', options),
    readSteps: () => given.readSteps('a', options).next(),
    analyze: () => given.analyze('a', options).next(),
    measureShard: () => given.measureShard('a', { out: '/nowhere', shard: { index: 0, count: 1 }, ...options }),
  };
  return calls[name]?.();
}

const soon = Promise.resolve({});

/** Each function that takes options, or named columns, with one that it does not know. */
function misspelt(): [what: string, argument: string, call: () => unknown][] {
  const wrong = { thread: 1 };
  const data = new Float32Array([-1]);
  const logprobs = { data, dtype: 'float32', shape: [1, 1, 1] };
  const labels = { own: [0], lengths: [1] };
  const stats = (name: string) => given.Engine.prototype[name].bind(engine);
  const sink = () =>
    engine.tokenSumsSink({ ...sinkOptions }) as never as Record<string, (...args: unknown[]) => unknown>;
  const step = { step: 1, logprobs, lengths: Int32Array.of(1), group: Int32Array.of(0) };
  const monitor = () => new given.Monitor({ engine });
  const out = '/nowhere';
  const evidence = { step: 1 };
  const calls: Record<string, (options: object) => unknown> = {
    openEngine: (options) => given.openEngine(options),
    allocDevice: (options) => stats('allocDevice')('float32', [1], options),
    upload: (options) => stats('upload')(logprobs, options),
    importDevice: (options) => stats('importDevice')({}, options),
    deviceMemory: (options) => stats('deviceMemory')(options),
    sumTokens: (options) => stats('sumTokens')(logprobs, [1], options),
    sumFileTokens: (options) => stats('sumFileTokens')({}, [1], options),
    tokenRowStats: (options) => stats('tokenRowStats')(logprobs, [1], { own: [0], ...options }),
    scoreStats: (options) => stats('scoreStats')(fourScores, { ...labels, ...options }),
    gatherScores: (options) => stats('gatherScores')(fourScores, options),
    inferStep: (options) => stats('inferStep')(fourScores, {}, { ...labels, permutations: 0, seed: 0, ...options }),
    inferPairs: (options) => stats('inferPairs')(noPairs, { own: [], lengths: [], signatures: [0], ...options }),
    tokenSumsSink: (options) => stats('tokenSumsSink')({ ...sinkOptions, ...options }),
    'TokenSumsSink.add': (options) => sink().add?.({ logprobs }, options),
    'TokenSumsSink.addSums': (options) => sink().addSums?.({ sums: logprobs }, options),
    planScores: (options) => given.planScores({ groups, lengths }, { negatives: 3, ...options }),
    estimateFromPairs: (options) =>
      given.estimateFromPairs(engine, plan, { sums: new Float64Array(plan.rows.length) }, options),
    ScoreRounds: (options) => new given.ScoreRounds(engine, { groups, lengths }, { width: 1, ...options }),
    sumPairTokens: (options) => given.sumPairTokens(engine, plan, logprobs, lengths, options),
    listSteps: (options) => given.listSteps(out, options),
    readSteps: (options) => given.readSteps(out, options).next(),
    readStepFile: (options) => given.readStepFile(out, options),
    readStepHeader: (options) => given.readStepHeader(out, options),
    writeStep: (options) => given.writeStep(out, step, options),
    analyze: (options) => given.analyze(out, options).next(),
    analysisStream: (options) => given.analysisStream(out, options),
    measureShard: (options) => given.measureShard(out, { out, shard: { index: 0, count: 1 }, ...options }),
    'ResultDirectory.journal': (options) => given.ResultDirectory.prototype.journal(options),
    readEvidence: (options) => given.readEvidence(evidence, options),
    'Monitor.reports': (options) => monitor().reports([], options).next(),
    'Monitor.transform': (options) => monitor().transform(options),
    'step.score': (options) => openStep().score(0, [1], options),
    'step.scoreAll': (options) => openStep().scoreAll({ sums }, options),
    'step.scoreRows': (options) => openStep().scoreRows([0], { sums }, options),
    'step.scoreBlock': (options) => openStep().scoreBlock({ sums }, options),
    'step.scoreBlocks': (options) => openStep().scoreBlocks([], options),
    'step.finish': (options) => openStep().finish({}, options),
  };
  return [
    ...Object.entries(calls).map(([name, call]): [string, string, () => unknown] => [
      `an unknown option of ${name}`,
      'options.thread',
      () => call(wrong),
    ]),
    ['an unknown label of rows', 'labels.thread', () => stats('stepMoments')({}, { ...labels, ...wrong })],
    ['an unknown option of a sampler', 'sampler.thread', () => given.sampleRows([0], [0], { kind: 'turn', ...wrong })],
    [
      'a column of crossScoreMetrics by its name in a step',
      'scores.columnGroup',
      () => given.crossScoreMetrics(engine, { sums, lengths, groups, columnGroup: [0, 1, 2] }),
    ],
    [
      'a column of planScores by its name in a step',
      'input.prompts',
      () => given.planScores({ groups, lengths, prompts: [] }, { negatives: 3 }),
    ],
    [
      'a column of ScoreRounds by its name in a step',
      'input.prompts',
      () => new given.ScoreRounds(engine, { groups, lengths, prompts: [] }, { width: 1 }),
    ],
    [
      'a misspelt column of the filter',
      'input.outcome',
      () => given.filterGroups({ rewards: [[1, 0]], outcome: [1, 0] }),
    ],
    [
      'a misspelt column of rows to filter',
      'rewards.episode',
      () => given.filterGroups({ rewards: { values: [1, 0], groups: [0, 0], episode: [0, 1] } }),
    ],
    [
      'a misspelt part of a step in a stream',
      'input.outcome',
      () =>
        monitor()
          .reports([{ step: 1, labels: { groups, lengths }, outcome: {} }])
          .next(),
    ],
    ['a misspelt part of evidence', 'evidence.row', () => given.readEvidence({ ...evidence, row: {} })],
    [
      'a misspelt column of evidence',
      'evidence.rows.reward',
      () => given.readEvidence({ ...evidence, rows: { groups, reward: groups } }),
    ],
    ['a misspelt tensor of a step to write', 'step.reward', () => given.writeStep(out, { ...step, reward: data })],
    [
      'an unknown option of what a journal is of',
      'options.measuring.permutation',
      () => given.ResultDirectory.prototype.journal({ measuring: { permutation: 9 } }),
    ],
  ];
}

const calls: [what: string, argument: string, call: () => unknown][] = [
  ['crossScoreMetrics of null', 'scores', () => given.crossScoreMetrics(engine, null)],
  ['without groups', 'groups', () => given.crossScoreMetrics(engine, { sums, lengths })],
  ['without lengths', 'lengths', () => given.crossScoreMetrics(engine, { sums, groups })],
  ['sums that are no tensor', 'sums', () => given.crossScoreMetrics(engine, { sums: [], lengths, groups })],
  [
    'prompts that are none',
    'promptTokens',
    () => given.crossScoreMetrics(engine, { sums, lengths, groups, promptTokens: null }),
  ],
  ...[Number.NaN, 'a', 0.5, null, [1]].map((id): [string, string, () => unknown] => [
    `a group id of ${String(id)}`,
    'groups',
    () => given.crossScoreMetrics(engine, { sums, lengths, groups: [id, 1, 2, id, 1, 2] }),
  ]),
  ['planScores of NaN', 'groups', () => given.planScores({ groups: [Number.NaN], lengths: [1] }, { negatives: 3 })],
  ['planScores without options', 'options', () => given.planScores({ groups, lengths })],
  ['estimateFromPairs of nothing', 'plan', () => given.estimateFromPairs(engine)],
  ['completeSums of nothing', 'plan', () => given.completeSums()],
  ['sumPairTokens of nothing', 'plan', () => given.sumPairTokens(engine)],
  ['sumPairTokens of no tensor', 'logprobs', () => given.sumPairTokens(engine, plan, [1])],
  [
    'bare sums of a plan',
    'scores.sums',
    () => given.estimateFromPairs(engine, plan, new Float64Array(plan.rows.length)),
  ],
  ['sums of a plan that are undefined', 'scores', () => given.completeSums(plan)],
  ['threads that no engine can have', 'options.threads', () => new given.Monitor({ threads: 0 })],
  ['the promise of all scores', 'scores', () => openStep().scoreAll(Promise.resolve(1))],
  ['all scores as an array', 'scores.logprobs', () => openStep().scoreAll({ logprobs: [[1]] })],
  ['token log-probs as nested arrays', 'sums', () => openStep().score(0, [[-1], [-1, -2]])],
  ['Judge.add of nothing', 'evidence', () => new given.Judge().add()],
  [
    'figures in place of metrics',
    'evidence.metrics',
    () => new given.Judge().add({ step: 1, metrics: { mi_estimate: 1 } }),
  ],
  ['ResultDirectory of nothing', 'directory', () => given.ResultDirectory.open()],
  ['crossScoreMetrics without an engine', 'engine', () => given.crossScoreMetrics({ sums, lengths, groups })],
  [
    'the promise of an engine',
    'engine',
    () => given.crossScoreMetrics(Promise.resolve(engine), { sums, lengths, groups }),
  ],
  [
    'a monitor of the promise of an engine',
    'options.engine',
    () => new given.Monitor({ engine: Promise.resolve(engine) }),
  ],
  ['an analysis without a usable engine', 'options.engine', () => given.analyze('a', { engine: {} }).next()],
  [
    'a misspelt option of crossScoreMetrics',
    'options.permutation',
    () => given.crossScoreMetrics(engine, { sums, lengths, groups }, { permutation: 9 }),
  ],
  ['a misspelt option of filterGroups', 'options.topP', () => given.filterGroups({ rewards: [[1, 0]] }, { topP: 0.5 })],
  ['a misspelt option of logitStats', 'options.target', () => engine.logitStats(fourScores, { target: [0] } as object)],
  ...misspelt(),
  [
    'logits without dtype and shape',
    'logits',
    () => given.Engine.prototype.logitStats.call(engine, new Float32Array(4)),
  ],
  ['prompts of a step that are none', 'promptTokens', () => monitorStep({ promptTokens: 'x' })],
  [
    'a saved state in place of one that runs',
    'options.state',
    () => given.crossScoreMetrics(engine, { sums, lengths, groups }, { state: new given.RunningState().toJSON() }),
  ],
  [
    'a label that is no name',
    'options.label',
    () => given.crossScoreMetrics(engine, { sums, lengths, groups }, { label: {} }),
  ],
  [
    'episodes that are none',
    'episodes',
    () =>
      given.crossScoreMetrics(
        engine,
        { sums, lengths, groups, episodes: null, turns: groups },
        { sampler: { kind: 'turn' } },
      ),
  ],
  [
    'turns of prompts that are none',
    'promptTurns',
    () => given.planScores({ groups, lengths, promptTurns: null }, { negatives: 4 }),
  ],
  [
    'a plan that went through JSON',
    'plan',
    () => given.estimateFromPairs(engine, JSON.parse(JSON.stringify(plan)), { sums: [] }),
  ],
  ['sampleRows with rows in place of a test', 'usable', () => given.sampleRows([0], [0], { kind: 'turn' }, [0])],
  ['readSteps of null', 'source', () => given.readSteps(null).next()],
  [
    'metadata that are none',
    'step.metadata',
    () => given.writeStep('/nowhere', { step: 1, ...step(), metadata: null }),
  ],
  [
    'an index that is no number',
    'options.shard',
    () => given.measureShard('a', { out: 'o', shard: { index: '0', count: 1 } }),
  ],
  ['a name in place of names of metrics', 'options.metrics', () => given.analyze('a', { metrics: 'mi' }).next()],
  ['journals that are no paths', 'options.journals', () => given.analyze('a', { journals: [7] }).next()],
  ['Judge.take of nothing', 'reading', () => new given.Judge().take()],
  ['Judge.take of evidence', 'reading', () => new given.Judge().take({ step: 1 })],
  ...['rewardRange', 'grounding', 'oscillation', 'actionInformation'].map((name): [string, string, () => unknown] => [
    `Judge.take of a reading that has lost its ${name}`,
    `reading.${name}`,
    () => new given.Judge().take({ ...given.readEvidence({ step: 1 }), [name]: undefined }),
  ]),
  ['evidence by groups that is none', 'evidence.groups', () => given.readEvidence({ step: 1, groups: 5 })],
  [
    'evidence by groups without rewards',
    'evidence.groups[0].rewards',
    () => given.readEvidence({ step: 1, groups: [{}] }),
  ],
  ['a filter in evidence that is none', 'evidence.filter.kept', () => given.readEvidence({ step: 1, filter: {} })],
  ['ScoreRounds of nothing', 'input', () => new given.ScoreRounds(engine)],
  ['sampleRows without options', 'sampler', () => given.sampleRows([0], [0])],
  ['turns of other rows', 'turns', () => given.firstTurnRows([0, 1], [0])],
  ['effectiveSize of nothing', 'rows', () => given.effectiveSize()],
  ['readEvidence of nothing', 'evidence', () => given.readEvidence()],
  ['filterGate of nothing', 'rewardVariances', () => given.filterGate()],
  ...[Number.NaN, -1, Number.POSITIVE_INFINITY, '1'].map((variance): [string, string, () => unknown] => [
    `filterGate of a variance of ${variance}`,
    'rewardVariances',
    () => given.filterGate([1, variance, 2]),
  ]),
  [
    'filterGroups of rewards whose memory is gone',
    'rewards.values',
    () => given.filterGroups({ rewards: { values: transferred(new Float64Array(4)), groupSize: 2 } }),
  ],
  [
    'pairs that are no list',
    'options.pairs',
    () => given.Engine.prototype.tokenSumsSink.call(engine, { ...sinkOptions, pairs: 1 }),
  ],
  [
    'pairs without rows',
    'options.pairs[0].rows',
    () => engine.tokenSumsSink({ ...sinkOptions, pairs: [{ prompt: 0 } as never] }),
  ],
  [
    'lengths whose memory is gone',
    'options.lengths',
    () => engine.tokenSumsSink({ ...sinkOptions, lengths: transferred(Int32Array.of(1)) }),
  ],
  [
    'lengths of packed scores whose memory is gone',
    'lengths',
    () => engine.sumTokens(fourScores, transferred(Int32Array.of(1))),
  ],
  [
    'rows to gather whose memory is gone',
    'options.rows',
    () => engine.gatherScores(fourScores, { rows: transferred(Int32Array.of(1)) }),
  ],
  [
    'a mask whose memory is gone',
    'options.mask',
    () => engine.logitStats(fourScores, { mask: transferred(Uint8Array.of(1, 1)) }),
  ],
  [
    'rows of a block whose memory is gone',
    'rows',
    () => {
      const logprobs = { ...fourScores, shape: [1, 4] };
      return engine.tokenSumsSink(sinkOptions).add({ rows: transferred(Int32Array.of(0)), logprobs });
    },
  ],
  ...[Number.NaN, 0.5, '3', null, 3n].map((number): [string, string, () => unknown] => [
    `a training step of ${String(number)}`,
    'options.step',
    () => given.crossScoreMetrics(engine, { sums, lengths, groups }, { step: number }),
  ]),
  [
    'rows that are asked for with a number',
    'options.perRow',
    () => given.crossScoreMetrics(engine, { sums, lengths, groups }, { perRow: 1 }),
  ],
  [
    'progress that nobody can be told',
    'options.onProgress',
    () => given.crossScoreMetrics(engine, { sums, lengths, groups }, { onProgress: 1 }),
  ],
  [
    'a profile that JSON has no word for',
    'options.profile',
    () => given.crossScoreMetrics(engine, { sums, lengths, groups }, { profile: 1n }),
  ],
  ...[undefined, Number.NaN, 0.5, 'a', null].map((id): [string, string, () => unknown] => [
    `the id ${String(id)} of a token of a prompt`,
    'promptTokens[1]',
    () => given.crossScoreMetrics(engine, { sums, lengths, groups, promptTokens: [[1], [id], [3]] }),
  ]),
  ...[undefined, Number.NaN, 'a'].map((turn): [string, string, () => unknown] => [
    `a turn numbered ${String(turn)}`,
    'turns',
    () =>
      given.crossScoreMetrics(
        engine,
        { sums, lengths, groups, episodes: groups, turns: [turn, 1, 2, 3, 4, 5] },
        { sampler: { kind: 'turn' } },
      ),
  ]),
  ...[2 ** 31, Math.floor(Math.sqrt(constants.MAX_LENGTH / 8)) + 1].map((n): [string, string, () => unknown] => [
    `${n} draws`,
    'sampler.n',
    () =>
      given.crossScoreMetrics(
        engine,
        { sums, lengths, groups, episodes: groups, turns: [0, 1, 2, 3, 4, 5] },
        { sampler: { kind: 'trajectory', n }, permutations: 0 },
      ),
  ]),
  ['an episode without an id', 'episodes', () => given.firstTurnRows([undefined, 1], [0, 1])],
  ['sampleRows of another profile', 'profile', () => given.sampleRows([0], [0], { kind: 'turn' }, undefined, 'ragem')],
  ['a spread of another profile', 'profile', () => new given.RunningState().update('x', 'a', { std: 1, stdSeq: 1 })],
  ['a spread that is none', 'current', () => new given.RunningState().update('strict', 'a')],
  ['half a spread', 'current.stdSeq', () => new given.RunningState().update('strict', 'a', { std: 1 })],
  ['a spread at half a step', 'step', () => new given.RunningState().update('strict', 'a', { std: 1, stdSeq: 1 }, 1.5)],
  ['planScores without groups', 'groups', () => given.planScores({ lengths }, { negatives: 3 })],
  ...[null, '', true, [], 'a', Symbol('a')].map((length): [string, string, () => unknown] => [
    `a length of ${shown(length)}`,
    'lengths',
    () => given.planScores({ groups: [0, 1], lengths: [1, length] }, { negatives: 3 }),
  ]),
  ...[null, true, ''].map((share): [string, string, () => unknown] => [
    `a hard share of ${shown(share)}`,
    'options.hardShare',
    () => given.planScores({ groups, lengths }, { negatives: 3, hardShare: share }),
  ]),
  ['more buckets than can be', 'options.buckets.count', () => new given.Monitor({ buckets: { count: 2 ** 31 } })],
  ['turns of more than 31 bits', 'turns', () => given.turnsOfPrompts([0, 1], [2 ** 32, 1])],
  ['turns of prompts that are a number', 'columnGroups', () => given.turnsOfPrompts([0, 1], [0, 0], 2)],
  [
    'rounds with a number of prompts',
    'columnGroups',
    () => new given.ScoreRounds(engine, { groups, lengths, columnGroups: 3 }, { width: 1 }),
  ],
  ['rounds of any width', 'options.width', () => new given.ScoreRounds(engine, { groups, lengths }, { width: true })],
  [
    'rounds to a figure that JSON has no word for',
    'options.metric',
    () => new given.ScoreRounds(engine, { groups, lengths }, { width: 1, metric: 1n }),
  ],
  [
    'rows of pairs that are none',
    'scores.rows',
    () =>
      given.estimateFromPairs(engine, plan, { sums: new Float64Array(plan.rows.length), rows: null, prompts: null }),
  ],
  [
    'token log-probs of pairs without a shape',
    'logprobs.shape',
    () => given.sumPairTokens(engine, plan, { data: new Float32Array(1), dtype: 'float32' }, lengths),
  ],
  [
    'rows of no group',
    'rewards.groups',
    () => given.filterGroups({ rewards: { values: [1, 0, 1, 0], groups: [undefined, 0, 1, 1] } }),
  ],
  [
    'a turn of no number',
    'rewards.turns',
    () =>
      given.filterGroups({
        rewards: { values: [1, 0, 1, 0], groups: [0, 0, 1, 1], episodes: [0, 0, 1, 2], turns: [0, Number.NaN, 0, 0] },
      }),
  ],
  ...[[1, 2], ['a'], [[0.5]], [[undefined]], [null], new Int32Array(1)].map(
    (prompts): [string, string, () => unknown] => [
      `prompts that are not lists of ids: ${JSON.stringify(prompts)}`,
      'step.prompts[0]',
      () => given.writeStep('/nowhere', { step: 1, ...step(), prompts }),
    ],
  ),
  ['a number of prompts', 'step.prompts', () => given.writeStep('/nowhere', { step: 1, ...step(), prompts: 1 })],
  [
    'rows of evidence without groups',
    'evidence.rows.groups',
    () => given.readEvidence({ step: 1, rows: { rewards: [1] } }),
  ],
  ...[undefined, '1', null, 1n].map((reward): [string, string, () => unknown] => [
    `a reward of ${String(reward)} in evidence`,
    'evidence.rows.rewards',
    () => given.readEvidence({ step: 1, rows: { groups: [0, 0], rewards: [1, reward] } }),
  ]),
  [
    'rewards of evidence that are none',
    'evidence.rows.rewards',
    () => given.readEvidence({ step: 1, rows: { groups: [0], rewards: null } }),
  ],
  [
    'a group of evidence without an id',
    'evidence.groups[0].group',
    () => given.readEvidence({ step: 1, groups: [{ rewards: [1] }] }),
  ],
  [
    'swapped reasonings without their number',
    'evidence.rows.reasoningSwaps.reasonings',
    () => given.readEvidence({ step: 1, rows: { groups: [0], reasoningSwaps: { logprobs: [0] } } }),
  ],
  ['figures that are none', 'evidence.figures', () => given.readEvidence({ step: 1, figures: 5 })],
  ['a figure that is no number', 'evidence.figures.x', () => given.readEvidence({ step: 1, figures: { x: '1' } })],
  ...Object.entries({
    listSteps: ['onError', 'onListing'],
    readSteps: ['onError', 'onListing', 'allocate'],
    analyze: ['onListing'],
    measureShard: ['onListing', 'onProgress', 'onFailure'],
  }).flatMap(([name, callbacks]) =>
    callbacks.map((callback): [string, string, () => unknown] => [
      `${name} with what cannot be called as ${callback}`,
      `options.${callback}`,
      () => reading(name, { [callback]: 1 }),
    ]),
  ),
  ...['analyze', 'measureShard'].map((name): [string, string, () => unknown] => [
    `${name} with what is no signal`,
    'options.signal',
    () => reading(name, { signal: {} }),
  ]),
  ['a shard measured again, perhaps', 'options.resume', () => reading('measureShard', { resume: 'yes' })],
  ['a shard without a usable engine', 'options.engine', () => reading('measureShard', { engine: {} })],
  ...[true, 3n, '1', Number.NaN].map((bytes): [string, string, () => unknown] => [
    `blocks of ${String(bytes)} bytes`,
    'options.blockBytes',
    () => given.readStepFile('a.safetensors', { blockBytes: bytes }),
  ]),
  ...[undefined, 8, new ArrayBuffer(8), new Uint8Array(1e6)].map((memory): [string, string, () => unknown] => [
    `an allocator that gives ${shown(memory)}`,
    'options.allocate',
    () => given.readStepFile('examples/data/collapse/step_00001.safetensors', { allocate: () => memory }),
  ]),
  ...[null, 0, 1e7 + 1, 2 ** 40, '4'].map((count): [string, string, () => unknown] => [
    `${String(count)} shards`,
    'options.shard',
    () => given.measureShard('examples/data', { out: '/nowhere', shard: { index: 0, count } }),
  ]),
  ['results finished without failures', 'failures', () => given.ResultDirectory.prototype.finish({})],
  ['failures that are texts', 'failures[0]', () => given.ResultDirectory.prototype.finish({}, ['a'])],
  ['results of no settings', 'settings', () => given.ResultDirectory.prototype.finish(undefined, [])],
  ['a result that is none', 'report', () => given.ResultDirectory.prototype.add()],
  ['a record in place of a report', 'report.record', () => given.ResultDirectory.prototype.add({ step: 1 })],
  ['a journal of null', 'options.measuring', () => given.ResultDirectory.prototype.journal({ measuring: null })],
  ['a journal that stays, perhaps', 'options.keep', () => given.ResultDirectory.prototype.journal({ keep: 'no' })],
  ['options that are not there yet', 'options', () => given.crossScoreMetrics(engine, { sums, lengths, groups }, soon)],
  ['options of a monitor that are not there yet', 'options', () => new given.Monitor(soon)],
  ['options of an engine that are not there yet', 'options', () => given.openEngine(soon)],
  ['options of an analysis that are not there yet', 'options', () => given.analyze('a', soon).next()],
  ['rewards that are null', 'outcomes.rewards', () => openStep().buckets({ rewards: null })],
  ['sums to write into that are null', 'options.out', () => engine.sumTokens(fourScores, [2], { out: null as never })],
  [
    'swaps of 64-bit integers',
    'outcomes.reasoningSwaps.logprobs',
    () => openStep().finish({ reasoningSwaps: { logprobs: new BigInt64Array(1), reasonings: 1 } }),
  ],
  [
    'metrics without their certainty',
    'evidence.metrics',
    () => new given.Judge().add({ step: 1, metrics: { values: {}, certainty: null } }),
  ],
  ['readStepFile of nothing', 'path', () => given.readStepFile()],
  ['an allocator that is none', 'options.allocate', () => given.readStepFile('a.safetensors', { allocate: 1 })],
  ['findSteps of nothing', 'source', () => given.findSteps()],
  ['findSteps of what is no path', 'source', () => given.findSteps([1])],
  ['listSteps of nothing', 'source', () => given.listSteps()],
  ['writeStep of nothing', 'step', () => given.writeStep('a.safetensors')],
  ['a tensor that is none', 'step.logprobs', () => given.writeStep('a.safetensors', { logprobs: null })],
  ['measureShard of nothing', 'source', () => given.measureShard()],
];

describe('arguments of a wrong type', () => {
  it.each(calls)('are refused by name: %s: %s', async (_what, argument, call) => {
    const error = await (async () => call())().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ArgumentError);
    expect(error).toMatchObject({ argument });
  });

  it('refuses by name what stands among scores and rewards and is not read', async () => {
    const rewards = [
      [1, 0, 1],
      [1, 0, 0],
    ];
    const batch = { sums, lengths, groups };
    for (const [stranger, problem] of [
      ['advantages', 'is not known here; known are'],
      ['permutations', 'is an option: give it in the argument after the data'],
    ] as const) {
      await expect(given.crossScoreMetrics(engine, { ...batch, [stranger]: 1 })).rejects.toThrow(
        `scores.${stranger}: ${problem}`,
      );
    }
    for (const [input, problem] of [
      [{ rewards, advantages: [1] }, 'input.advantages: is not known here; known are rewards, outcomes'],
      [{ rewards, strategy: 'top_k_abs', value: 1 }, 'input.strategy: is an option: give it in the argument after'],
      [{ rewards: { values: [1, 0], groupSize: 2, dialect: 'dapo' } }, 'rewards.dialect: is an option'],
    ] as const) {
      expect(() => given.filterGroups(input)).toThrow(problem);
    }
    for (const misspelt of ['Lengths', 'length', 'lenghs', 'column_groups', 'colummGroups']) {
      const { lengths: _, ...rest } = batch;
      const wrong = misspelt.startsWith('c') ? batch : rest;
      await expect(given.crossScoreMetrics(engine, { ...wrong, [misspelt]: lengths })).rejects.toThrow(
        `scores.${misspelt}: is not read; ${misspelt.startsWith('c') ? 'columnGroups' : 'lengths'} is, if that is meant`,
      );
    }
  });

  it('a promise is to be awaited', async () => {
    const promised = given.crossScoreMetrics(openEngine(), { sums, lengths, groups });
    await expect(promised).rejects.toThrow('engine: got a Promise: await it first');
  });

  it('what a prompt may be scored with is said where nested arrays come', async () => {
    await expect(openStep().score(0, [[-1], [-1, -2]])).rejects.toThrow(/token log-probs go into a tensor/);
    await expect(openStep().score(0, Promise.resolve([-1]))).rejects.toThrow('scores: got a Promise: await it first');
  });

  it('one of a kind is named in the singular', async () => {
    const one = { data: new Float64Array(1), dtype: 'float64', shape: [1, 1] };
    await expect(given.crossScoreMetrics(engine, { sums: one, lengths: [1, 2], groups: [0] })).rejects.toThrow(
      'lengths: 2 lengths for 1 row',
    );
    expect(() => given.planScores({ groups: [0], lengths: [] }, { negatives: 3 })).toThrow('0 lengths for 1 row');
    expect(() => engine.tokenSumsSink({ ...sinkOptions, rows: 2 })).toThrow('has 1 entry, expected one a row: 2');
  });

  it('array-likes of numbers are arrays', () => {
    expect(given.filterGate({ length: 2, 0: 1, 1: 1 }).verdict).toBe('keep_all');
  });
});
