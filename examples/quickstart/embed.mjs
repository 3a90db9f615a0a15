// A monitor in a training loop, in thirty lines: `node examples/quickstart/embed.mjs` (in a clone, after `npm ci`).
// The "policy" is a toy: 8 words a response, drawn from its prompt's favourite words; from step 20 on it nearly forgets its prompt.
import { Monitor } from 'collapsar';

const [PROMPTS, EACH, WORDS, LENGTH] = [16, 8, 64, 8];
const favours = (prompt, word, step) => (word % PROMPTS !== prompt ? 1 : step < 20 ? 12 : 1.1);
const total = (prompt, step) =>
  Array.from({ length: WORDS }, (_, w) => favours(prompt, w, step)).reduce((a, b) => a + b, 0);

function sample(prompt, step) {
  let left = Math.random() * total(prompt, step);
  let word = 0;
  while (word < WORDS - 1 && left >= favours(prompt, word, step)) left -= favours(prompt, word++, step);
  return word;
}

const monitor = new Monitor({ everySteps: 2 });
for (let n = 1; n <= 30; n++) {
  const groups = Array.from({ length: PROMPTS * EACH }, (_, row) => Math.floor(row / EACH)); // the prompt of each response
  const responses = groups.map((prompt) => Array.from({ length: LENGTH }, () => sample(prompt, n)));
  const step = monitor.step(n, { groups, lengths: groups.map(() => LENGTH) });
  for (const { prompt, rows } of step.pairs().byPrompt) {
    // log p(token | this prompt) of every response: here from the toy, in a trainer from a forward pass
    const logprobs = Array.from(rows, (row) =>
      responses[row].map((w) => Math.log(favours(prompt, w, n) / total(prompt, n))),
    );
    await step.score(prompt, {
      data: Float64Array.from(logprobs.flat()),
      dtype: 'float64',
      shape: [rows.length, LENGTH],
    });
  }
  const { metrics, judgement } = await step.finish();
  const mi = metrics['collapse_first_turn_sample/mi_seq_estimate'];
  if (mi !== undefined)
    console.log(`step ${n}: I(X;Z) ${mi.toFixed(2)} nats, ${judgement?.regime.regime ?? 'undecided'}`);
  for (const { said, severity, sentence } of judgement?.verdicts ?? [])
    if (said === n) console.log(`${severity}: ${sentence}`);
}
await monitor.dispose();
