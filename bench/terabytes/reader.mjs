// The baseline of bench/terabytes.mjs: reads every byte of the files given and computes nothing, with threads and pieces
// as the engine has them, one file after the other. Prints seconds and bytes as JSON.
// node bench/terabytes/reader.mjs ROOFLINES THREADS FILE...    the first: rooflinesPath() of bench/suite/roofline.mjs
import { closeSync, fstatSync, openSync } from 'node:fs';
import { createRequire } from 'node:module';

const [addon, threads, ...files] = process.argv.slice(2);
const rooflines = new (createRequire(import.meta.url)(addon).Rooflines)(Number(threads));

const begun = performance.now();
let bytes = 0;
for (const path of files) {
  const fd = openSync(path, 'r');
  const { size } = fstatSync(fd);
  const { failure } = rooflines.readFile(fd, 0, size, 0);
  if (failure !== null) throw new Error(`${path}: ${JSON.stringify(failure)}`);
  closeSync(fd);
  bytes += size;
}
console.log(JSON.stringify({ seconds: (performance.now() - begun) / 1e3, bytes }));
