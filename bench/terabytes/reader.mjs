// The baseline of bench/terabytes.mjs: reads every byte of the files given and computes nothing, with the engine's own
// threads and pieces of the same size, one file queued behind another. Prints seconds and bytes as JSON.
// node bench/terabytes/reader.mjs THREADS FILE...
import { open } from 'node:fs/promises';
import { loadAddon } from '../../dist/engine/addon.js';
import { maxBufferBytes } from '../../dist/engine/memory.js';

const AHEAD = 3;

const [threads, ...files] = process.argv.slice(2);
const native = new (loadAddon().NativeEngine)(Number(threads), maxBufferBytes);

/** @returns {Promise<number>} bytes */
async function readWhole(path) {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    await new Promise((resolve, reject) => {
      const settle = (outcome, value) =>
        outcome === 0 && value.failure === null ? resolve() : reject(new Error(`${path}: ${JSON.stringify(value)}`));
      native.readFile(settle, file.fd, 0, size, 0);
    });
    return size;
  } finally {
    await file.close();
  }
}

const begun = performance.now();
let bytes = 0;
const underWay = [];
for (const path of files) {
  underWay.push(readWhole(path));
  if (underWay.length > AHEAD) bytes += await underWay.shift();
}
for (const reading of underWay) bytes += await reading;
console.log(JSON.stringify({ seconds: (performance.now() - begun) / 1e3, bytes }));
await new Promise((resolve) => native.close(resolve));
