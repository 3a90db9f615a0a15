// ATIF, Harbor's format of trajectories, which other agents write as well: JOB/TASK__SUFFIX/agent/trajectory.json, an
// object a trial. v1.7 and v1.8 as the package atif 1.8.0 has them (rfcs/0001-trajectory-format.md of Harbor). The
// verifier's reward is in other files of the trial.
import { type Fields, fieldsOf } from '../../fields.js';
import { foldersOf, hasAll, type Place, type RolloutFormat, rollout } from '../../format.js';
import { chatOf, messagesOf } from '../../messages.js';
import { tokensOfTurns } from '../../rows/turn-tokens.js';

const TOKENS = { prompt: 'prompt_token_ids', tokens: 'completion_token_ids', logprobs: 'logprobs' };
const TRIAL = /^(.+)__[A-Za-z0-9]{7}$/;

export const reader: RolloutFormat = {
  name: 'atif',
  containers: ['json-lines'],
  needs: 'schema_version, agent, steps (each with source and message)',
  setting: '`harbor run`; `jobs/JOB/TRIAL/agent/trajectory.json`',
  gives: 'chats, calls of tools, groups by task, lengths; token ids and log-probs where the agent keeps them',
  recognises: (keys) => hasAll(keys, 'schema_version', 'agent', 'steps') && !keys.has('iteration'),
  fields: ['steps'],
  place,
  rows: (line, { path }) => {
    const steps = (line.list('steps') ?? []).map((step, at) => fieldsOf(step, `steps[${at}]`));
    const own = steps.filter(isSampled).map((step) => step.object('metrics'));
    const lengths = own.map((metrics) => metrics.count('completion_tokens') ?? Number.NaN);
    const length = lengths.length === 0 ? Number.NaN : lengths.reduce((sum, one) => sum + one);
    const hasTokens = own.every((metrics) => metrics.value(TOKENS.tokens) !== undefined);
    const trial = foldersOf(path)[trialIn(path)]?.name;
    return [
      rollout({
        group: TRIAL.exec(trial ?? '')?.[1],
        ...chatOf(messagesOf(steps.flatMap(turnsOf), 'steps')),
        ...(hasTokens && tokensOfTurns(own, TOKENS)),
        length: Number.isNaN(length) ? undefined : length,
        sample: trial,
      }),
    ];
  },
  absent: {
    reward: "ATIF has no reward: Harbor's is in result.json of the trial",
    outcome: "ATIF has no outcome: Harbor's is in result.json of the trial",
    truncated: 'ATIF does not say which responses were cut',
  },
  notes: ["groups are tasks as the trials' folders name them: Harbor cuts these names after 32 letters"],
  // What else Harbor leaves in a trial and a job, and trajectories of subagents and of what continues elsewhere.
  passesOver: (path) =>
    /__[A-Za-z0-9]{7}\/(?:(?:config|result|lock)\.json|(?:verifier|artifacts)\/.*|agent\/(?!trajectory\.json$).*)$/.test(
      path,
    ),
};

/** Where the trial's folder is among those of the path, the innermost first; -1 for a file elsewhere. */
function trialIn(path: string): number {
  const folders = foldersOf(path);
  const at = folders.findIndex(({ name }) => TRIAL.test(name));
  return at < 0 && folders[0]?.name === 'agent' ? 1 : at;
}

/** Trials of a job are one step. */
function place(path: string): Place {
  const at = trialIn(path);
  const job = foldersOf(path)[at + 1]?.path ?? '.';
  return { runDirectory: job, ...(at >= 0 && { partOf: job }) };
}

/** By the model in this trajectory, and neither copied from one before nor made without it. */
function isSampled(step: Fields): boolean {
  return (
    step.value('source') === 'agent' && step.flag('is_copied_context') !== true && step.count('llm_call_count') !== 0
  );
}

/** A message, and what its calls gave. */
function turnsOf(step: Fields): unknown[] {
  const calls = step.list('tool_calls')?.map((one, at) => {
    const call = fieldsOf(one, `tool_calls[${at}]`);
    return { name: call.value('function_name'), arguments: call.value('arguments') };
  });
  const message = {
    role: isSampled(step) ? 'assistant' : step.text('source'),
    content: step.value('message') ?? '',
    reasoning_content: step.value('reasoning_content'),
    tool_calls: calls,
  };
  const results = step.object('observation').list('results') ?? [];
  return [
    message,
    ...results.map((one) => ({ role: 'tool', content: fieldsOf(one, 'results').value('content') ?? '' })),
  ];
}
