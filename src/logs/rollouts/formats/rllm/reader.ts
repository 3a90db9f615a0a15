// rLLM: logs/PROJECT/EXPERIMENT/episodes/{train|val}_step_N_epoch_E/episode_hash…_id….json: an object a file, an episode
// with its trajectories, one an agent. Steps repeat the chat so far: the last has all of it.
// rllm/utils/episode_logger.py at 9beb6e0f.

import { type Fields, fieldsOf } from '../../fields.js';
import { hasAll, placeByFolder, type RolloutFormat, rollout } from '../../format.js';
import { chatOf, messagesOf } from '../../messages.js';

export const reader: RolloutFormat = {
  name: 'rllm',
  containers: ['json-lines'],
  needs: 'episode_id, task_hash, trajectories (each with steps)',
  setting: '`trainer.log_episodes=true`; `episodes/` in `trainer.episode_log_dir`',
  gives: 'chats, rewards, success; groups by task and agent',
  recognises: (keys) => hasAll(keys, 'episode_id', 'task_hash', 'trajectories'),
  fields: ['training_step', 'episode_id', 'task', 'task_hash', 'is_correct', 'termination_reason', 'trajectories'],
  stepField: 'training_step',
  place: (path) => {
    const split = /\/val_step_\d+[^/]*\/[^/]*$/.test(path) ? 'val' : 'train';
    return placeByFolder(path, /^(?:train|val)_step_(\d+)(?:_epoch_\d+)?$/, { own: /^episodes$/, split });
  },
  rows: (line) => {
    const [episode, task] = [line.id('episode_id'), line.id('task_hash')];
    const reason = line.text('termination_reason');
    const trajectories = (line.list('trajectories') ?? []).map((one, at) => fieldsOf(one, `trajectories[${at}]`));
    const agents = new Set(trajectories.map((one) => one.id('name')));
    return trajectories.map((trajectory, at) => {
      const steps = (trajectory.list('steps') ?? []).map((one, index) => fieldsOf(one, `steps[${index}]`));
      return rollout({
        step: line.count('training_step'),
        group: agents.size > 1 ? `${task}/${trajectory.id('name')}` : task,
        ...saidIn(steps),
        reward: trajectory.number('reward'),
        outcome: line.outcome('is_correct'),
        truncated: reason === undefined ? undefined : /length|token|truncat/i.test(reason),
        sample: `${episode}/${trajectory.id('uid') ?? at}`,
      });
    });
  },
  absent: {
    tokens: "rLLM's episodes have texts alone",
    logprobs: "rLLM's episodes have no log-probs",
    length: "rLLM's episodes have no token counts",
    entropy: "rLLM's episodes have no entropies",
  },
  notes: [],
};

function saidIn(steps: readonly Fields[]) {
  const chat = steps.at(-1)?.list('chat_completions') ?? [];
  if (chat.length > 0) return chatOf(messagesOf(chat, 'chat_completions'));
  const said = steps.map((step) => step.text('model_response') ?? '');
  return said.some((text) => text !== '') ? { output: said.join('\n') } : {};
}
