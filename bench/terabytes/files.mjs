// Step files for bench/terabytes.mjs: as large as asked for, quickly made, with scores that tell prompts apart.
import { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { uniformNumbers } from '../random.mjs';

const dtypes = { float32: { name: 'F32', bytes: 4 }, bfloat16: { name: 'BF16', bytes: 2 } };

export function stepBytes({ prompts, rows, tokens, dtype }) {
  return prompts * rows * tokens * dtypes[dtype].bytes;
}

/** Writes a safetensors file: the tensors' bytes come from `write`, one tensor after the other. */
function writeContainer(path, step, tensors) {
  const header = { __metadata__: { step: String(step), run: 'bench' } };
  let end = 0;
  for (const { name, dtype, shape, bytes } of tensors) {
    header[name] = { dtype, shape, data_offsets: [end, end + bytes] };
    end += bytes;
  }
  let json = JSON.stringify(header);
  json += ' '.repeat((64 - ((json.length + 8) % 64)) % 64);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const file = openSync(path, 'w');
  try {
    writeSync(file, length);
    writeSync(file, json);
    let begin = 8 + json.length;
    for (const { bytes, write } of tensors) {
      write(file, begin);
      begin += bytes;
    }
  } finally {
    closeSync(file);
  }
}

function columnsOf({ prompts, rows, tokens }, step, lengthsOf) {
  const uniform = uniformNumbers(step + 1);
  const lengths = Int32Array.from({ length: rows }, () =>
    lengthsOf === 'full' ? tokens : 1 + Math.floor(uniform() * tokens),
  );
  const group = Int32Array.from({ length: rows }, (_, row) => Math.floor((row * prompts) / rows));
  const rewards = Float32Array.from({ length: rows }, () => (uniform() < 0.5 ? 0 : 1));
  const put = (data) => (file, at) => writeSync(file, new Uint8Array(data.buffer), 0, data.byteLength, at);
  return {
    group,
    tensors: [
      { name: 'lengths', dtype: 'I32', shape: [rows], bytes: rows * 4, write: put(lengths) },
      { name: 'group', dtype: 'I32', shape: [rows], bytes: rows * 4, write: put(group) },
      { name: 'rewards', dtype: 'F32', shape: [rows], bytes: rows * 4, write: put(rewards) },
    ],
  };
}

/**
 * Writes step files into a directory; they hold log-probs of -1.2 on average. Between them signals are heard. @returns
 * {Promise<string[]>}
 */
export async function writeSteps(directory, count, shape, lengthsOf) {
  const { prompts, rows, tokens, dtype } = shape;
  const uniform = uniformNumbers(7);
  const noise = Float32Array.from({ length: 2 ** 20 + tokens }, () => Math.log(1 - uniform()) * 1.2);
  const near = noise.map((value) => value * 0.98);
  const encode = (values) => (dtype === 'float32' ? values : new Uint16Array(values.buffer).filter((_, at) => at % 2));
  const [noiseBits, nearBits] = [encode(noise), encode(near)];
  const block = new noiseBits.constructor(rows * tokens);
  const paths = [];
  for (let step = 0; step < count; step++) {
    const { group, tensors } = columnsOf(shape, step, lengthsOf);
    const write = (file, at) => {
      for (let prompt = 0; prompt < prompts; prompt++) {
        for (let row = 0; row < rows; row++) {
          const from = (Math.imul(row * 7919 + prompt * 104729 + step * 31, 2654435761) >>> 0) % 2 ** 20;
          block.set((group[row] === prompt ? nearBits : noiseBits).subarray(from, from + tokens), row * tokens);
        }
        const bytes = new Uint8Array(block.buffer);
        let done = 0;
        while (done < bytes.length)
          done += writeSync(file, bytes, done, bytes.length - done, at + prompt * bytes.length + done);
      }
    };
    const bytes = stepBytes(shape);
    const scores = { name: 'cross_logprobs', dtype: dtypes[dtype].name, shape: [prompts, rows, tokens], bytes, write };
    const path = join(directory, `step_${String(step).padStart(6, '0')}.safetensors`);
    writeContainer(path, step, [scores, ...tensors]);
    paths.push(path);
    await setImmediate();
  }
  return paths;
}

/**
 * Step files whose scores are a hole in the file, zeros that take no disk: for memory, where the values do not matter.
 */
export function writeHollowSteps(directory, shapes) {
  for (const [step, shape] of shapes.entries()) {
    const { prompts, rows, tokens, dtype } = shape;
    const { tensors } = columnsOf(shape, step, 'full');
    const bytes = stepBytes(shape);
    const write = (file, at) => ftruncateSync(file, at + bytes);
    const scores = { name: 'cross_logprobs', dtype: dtypes[dtype].name, shape: [prompts, rows, tokens], bytes, write };
    const path = join(directory, `step_${String(step).padStart(6, '0')}.safetensors`);
    writeContainer(path, step, [scores, ...tensors]);
  }
}
