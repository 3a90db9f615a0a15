// The Node side of trainer.py: JSON lines with a tensor of the trainer's GPU memory come in on stdin, a line with what it
// shows goes out on stdout for each. Nothing of a tensor is copied: it is read where the trainer has it.
import { createInterface } from 'node:readline';
import { crossScoreMetrics, openEngine } from 'collapsar';

/** What can be asked of a tensor, by the name of the question. */
const questions = {
  async logitStats(engine, logits, { targets }) {
    const { entropy, targetLogprob, rankAbove } = await engine.logitStats(logits, { targets });
    return { entropy: [...entropy], targetLogprob: [...targetLogprob], rankAbove: [...rankAbove] };
  },

  async crossScores(engine, logprobs, { lengths, groups }) {
    const { values } = await crossScoreMetrics(engine, { logprobs, lengths, groups });
    return values;
  },
};

const device = /** @type {'cpu' | 'cuda'} */ (process.env.COLLAPSAR_DEVICE ?? 'cuda');
const engine = await openEngine({ device });

for await (const line of createInterface({ input: process.stdin })) {
  const { question, tensor: source, ...more } = JSON.parse(line);
  let tensor;
  let answer;
  try {
    const started = performance.now();
    // What is asked then waits for what the trainer's stream was doing.
    tensor = await engine.importDevice(source);
    const result = await questions[question](engine, tensor, more);
    answer = { result, milliseconds: performance.now() - started };
  } catch (error) {
    answer = { error: `${error.code ?? error.name}: ${error.message}` };
  } finally {
    await tensor?.dispose(); // gives the memory back to the trainer
  }
  console.log(JSON.stringify(answer));
}
await engine.dispose();
