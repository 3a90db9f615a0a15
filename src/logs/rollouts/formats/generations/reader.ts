// Data sets of samples: a row a prompt, its responses in a list, and lists of what belongs to each. `generations` of
// OpenR1-Math and others on the Hugging Face Hub, with the checks of correctness and the finish reasons beside them;
// LiveCodeBench's `output_list` and `graded_list` (lcb_runner/benchmarks/code_generation.py); responses with rewards.
import { type RolloutFormat, rollout } from '../../format.js';
import { promptIn, saidIn } from '../../messages.js';
import { samplesIn } from '../../rows/samples-in-row.js';

const PROMPTS = ['prompt', 'problem', 'question', 'question_content', 'instruction', 'input', 'query'];
const LISTS = ['generations', 'output_list', 'responses', 'completions'];
/** The likeliest first. */
const REWARDS = ['rewards', 'graded_list', 'correctness_math_verify', 'correctness_llama', 'correctness', 'scores'];

export const reader: RolloutFormat = {
  name: 'generations',
  containers: ['json-lines', 'parquet'],
  needs: 'a prompt beside a list: generations, output_list, or responses or completions with rewards',
  setting: 'data sets of samples, such as OpenR1-Math; `*_eval_all.json` of LiveCodeBench',
  gives: 'texts, groups by prompt; rewards, or whether each is right; responses that were cut',
  recognises: (keys) =>
    PROMPTS.some((name) => keys.has(name)) &&
    (keys.has('generations') ||
      keys.has('output_list') ||
      (keys.has('rewards') && (keys.has('responses') || keys.has('completions')))),
  fields: [...PROMPTS, ...LISTS, ...REWARDS, 'finish_reasons', 'question_id'],
  rows: (line) => {
    const there = (names: readonly string[]): string | undefined =>
      names.find((name) => line.value(name) !== undefined);
    const [output, prompt] = [there(LISTS), there(PROMPTS)];
    if (output === undefined) return [];
    const rewards = Object.fromEntries(REWARDS.map((name) => [name, name]));
    return samplesIn(line, { output, prompt, ...rewards, finish: 'finish_reasons' }).map((sample) => {
      const reward = REWARDS.find((name) => sample.value(name) !== undefined);
      const finish = sample.text('finish_reasons');
      return rollout({
        group: sample.id('question_id'),
        prompt: prompt === undefined ? undefined : promptIn(sample, prompt),
        ...saidIn(sample, output),
        reward: reward === undefined ? undefined : sample.outcome(reward),
        truncated: finish === undefined ? undefined : finish === 'length',
      });
    });
  },
  absent: {
    reward: 'the data set does not say which responses are right',
    tokens: 'lists of generations have texts alone',
    logprobs: 'lists of generations have no log-probs',
    sample: 'lists of generations have no ids of responses',
    length: 'lists of generations have no token counts',
  },
  notes: [],
};
