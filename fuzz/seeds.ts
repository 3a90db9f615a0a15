// The inputs that a target starts from: packed in one file of JSON, or loose in a folder beside it until they are
// packed (`npm run fuzz -- --pack`).
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** By name: UTF-8 as it is, other bytes as base64. */
type Packed = Record<string, string | { readonly base64: string }>;

const packOf = (folder: string) => `${folder}.json`;

/** @param folder  Target.seeds, from the working directory */
export function seedsOf(folder: string): Map<string, Buffer> {
  const seeds = new Map<string, Buffer>();
  if (existsSync(packOf(folder))) {
    const packed = JSON.parse(readFileSync(packOf(folder), 'utf8')) as Packed;
    for (const [name, input] of Object.entries(packed)) {
      seeds.set(name, typeof input === 'string' ? Buffer.from(input) : Buffer.from(input.base64, 'base64'));
    }
  }
  if (existsSync(folder)) for (const name of readdirSync(folder)) seeds.set(name, readFileSync(join(folder, name)));
  return seeds;
}

/** Packs what is loose. */
export function packSeeds(folder: string): void {
  if (!existsSync(folder)) return;
  const packed: Packed = {};
  for (const [name, input] of [...seedsOf(folder)].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const text = input.toString('utf8');
    packed[name] = Buffer.from(text).equals(input) ? text : { base64: input.toString('base64') };
  }
  writeFileSync(packOf(folder), `${JSON.stringify(packed, null, 1)}\n`);
  rmSync(folder, { recursive: true });
}
