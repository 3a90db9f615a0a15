// AReaL: rollout/{version}/{task_id}.jsonl, with `rollout.dump_to_file`: a file a group, a line a sample. Newer ones
// have `segments`, and a `prompt_len` that ends at the first sampled token; in older ones it is wrong for several
// turns. areal/infra/workflow_executor.py.
import { fieldsOf } from '../../fields.js';
import { foldersOf, hasAll, placeByFolder, plainName, type RolloutFormat, rollout } from '../../format.js';
import { promptIn, saidIn } from '../../messages.js';

export const reader: RolloutFormat = {
  name: 'areal',
  containers: ['json-lines'],
  needs: 'task_id, sample_idx, prompt, completion, reward',
  setting: '`rollout.dump_to_file=true`',
  gives: 'texts, rewards, lengths; a file is a group',
  recognises: (keys) => hasAll(keys, 'task_id', 'prompt', 'completion', 'reward'),
  fields: ['task_id', 'sample_idx', 'seqlen', 'prompt_len', 'reward', 'prompt', 'completion', 'segments'],
  place: (path) => ({
    ...placeByFolder(path, /^(\d+)$/, { own: /^(eval-)?rollout$/ }),
    split: foldersOf(path)[1]?.name === 'eval-rollout' ? 'eval' : undefined,
  }),
  rows: (line, { path }) => {
    const group = line.id('task_id') ?? plainName(path).replace(/\.jsonl$/, '');
    const [all, before] = [line.count('seqlen'), line.count('prompt_len')];
    const segments = line.list('segments')?.map((value, at) => fieldsOf(value, `segments[${at}]`));
    const sampled = segments?.filter((segment) => segment.text('role') === 'gen');
    const sample = line.id('sample_idx');
    return [
      rollout({
        group,
        prompt: promptIn(line, 'prompt'),
        // With several turns the completion holds what tools said as well.
        ...(sampled
          ? { output: sampled.map((segment) => segment.text('text') ?? '').join('\n') }
          : saidIn(line, 'completion')),
        reward: line.number('reward'),
        length: sampled
          ? sampled.reduce((sum, segment) => sum + (segment.count('len') ?? 0), 0)
          : all !== undefined && before !== undefined && all >= before
            ? all - before
            : undefined,
        sample: sample === undefined ? undefined : `${group}/${sample}`,
      }),
    ];
  },
  absent: {
    tokens: "AReaL's dump has texts alone",
    logprobs: "AReaL's dump has no log-probs",
    outcome: "AReaL's dump has rewards alone",
    truncated: "AReaL's dump does not say which responses were cut",
  },
  notes: ['rollouts that the trainer rejected are in the log as well; those that end in tool text are not'],
};
