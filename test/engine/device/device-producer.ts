// A process that holds a tensor on the GPU and says where: the trainer of tests.
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { addonPath } from '../../../src/engine/addon.js';
import { openOnDevice } from './engine-device-backend.js';

/** It waits for the end of its input. */
const producer = `
  const addon = require(process.argv[1]);
  const engine = new addon.NativeEngine(1, 2 ** 31);
  const tell = (value) => process.stdout.write(JSON.stringify(value) + '\\n');
  const values = Float32Array.from(JSON.parse(process.argv[3]));
  const done = (next) => (outcome, value) => outcome === 0 ? next(value) : tell({ problem: value });
  engine.openDevice(done(() => {
    engine.uploadDevice(done((memory) => {
      engine.shareDevice(done(({ handle, offset }) => {
        tell({ handle: Buffer.from(handle).toString('base64'), offset });
      }), memory);
    }), values, 1, false, values.length);
  }), process.argv[2], 0, false);
  process.stdin.on('end', () => process.exit()).resume();`;

export interface Produced {
  child: ChildProcess;
  handle: string;
  offset: number;
}

export async function produce(values: Float32Array): Promise<Produced> {
  const engine = await openOnDevice();
  const backend = process.env.COLLAPSAR_CUDA_BACKEND ?? join(addonPath(), '..', 'collapsar_cuda.so');
  await engine.dispose();
  const args = ['-e', producer, addonPath(), backend, JSON.stringify([...values])];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const line = await new Promise<string>((resolve, reject) => {
    child.stdout?.once('data', (chunk: Buffer) => resolve(chunk.toString()));
    child.once('exit', (status) => reject(new Error(`the producer ended with status ${status}`)));
  });
  const told = JSON.parse(line) as { handle: string; offset: number; problem?: string };
  if (told.problem !== undefined) throw new Error(told.problem);
  return { child, ...told };
}
