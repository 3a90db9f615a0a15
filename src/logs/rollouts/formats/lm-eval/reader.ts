// lm-evaluation-harness: samples_TASK_DATE.jsonl of `--log_samples`: a line a document and filter, the responses to its
// request in a list, its metrics beside them. lm_eval/evaluator.py, loggers/evaluation_tracker.py.

import { type Fields, ObjectFields } from '../../fields.js';
import { hasAll, plainName, type RolloutFormat, rollout } from '../../format.js';
import { messagesOf, promptText } from '../../messages.js';

/** What is a share of the document that is right, the likeliest first. */
const METRICS = ['exact_match', 'pass@1', 'acc', 'acc_norm', 'em', 'f1', 'score', 'prompt_level_strict_acc'];

export const reader: RolloutFormat = {
  name: 'lm-eval',
  containers: ['json-lines'],
  needs: 'doc_id, arguments, resps',
  setting: '`lm_eval --log_samples --output_path DIR`',
  gives: 'texts, groups by document, the metric as the reward',
  environment: "the task, in the file's name",
  recognises: (keys) => hasAll(keys, 'doc_id', 'arguments', 'resps'),
  fields: ['doc_id', 'arguments', 'resps', 'filter', 'metrics', ...METRICS],
  hasOtherFields: true,
  rows: (line, { path }) => {
    const group = line.id('doc_id');
    const listed = (line.list('metrics') ?? []).map(String);
    const metric = [...METRICS, ...listed].find((name) => typeof (line.value(name) ?? {}) !== 'object');
    const asked = argumentIn(line.value('arguments'));
    const texts = (line.list('resps') ?? []).flat().filter((one) => typeof one === 'string');
    const task = /^samples_(.+?)(?:_\d{4}-\d\d-\d\dT.*)?\.jsonl$/.exec(plainName(path))?.[1];
    return texts.map((output, at) =>
      rollout({
        group,
        prompt: asked === undefined ? undefined : promptText(messagesOf(asked, 'arguments')),
        output,
        reward: metric === undefined ? undefined : line.outcome(metric),
        // A document comes again for each filter.
        sample: `${group}/${at}`,
        environment: task,
      }),
    );
  },
  absent: {
    tokens: 'samples of lm-evaluation-harness have texts alone',
    logprobs: 'samples of lm-evaluation-harness have log-probs of given answers alone',
    truncated: 'samples of lm-evaluation-harness do not say which were cut',
    length: 'samples of lm-evaluation-harness have no token counts',
  },
  notes: ['a document has one metric, whichever of its responses it is of: rewards do not vary within a group'],
};

/** Of the first request: its context, in a list or, in newer ones, in an object of objects. */
function argumentIn(value: unknown): unknown {
  if (Array.isArray(value)) return Array.isArray(value[0]) ? value[0][0] : value[0];
  if (typeof value !== 'object' || value === null) return undefined;
  const first: Fields = new ObjectFields(value as Record<string, unknown>).object('gen_args_0');
  return first.value('arg_0');
}
