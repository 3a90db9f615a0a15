// Logs that are zip files: Inspect's, and JSON lines in a zip.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FileError } from '../../../src/index.js';
import { temporaryDirectory } from '../../support/temporary-directory.js';
import { jsonLines, readAll } from './rollout-logs.js';

const root = temporaryDirectory();
const INSPECT = 'test/golden/logs/25-inspect.eval';

/** By Python's zipfile, which the tests of step files use as well. */
function zipped(name: string, members: Readonly<Record<string, string>>): string {
  mkdirSync(root, { recursive: true });
  const path = join(root, name);
  const code =
    'import json,sys,zipfile\nz=zipfile.ZipFile(sys.argv[1],"w",zipfile.ZIP_DEFLATED)\n[z.writestr(k,v) for k,v in json.load(sys.stdin).items()]\nz.close()';
  execFileSync(process.env.PYTHON ?? 'python3', ['-c', code, path], { input: JSON.stringify(members) });
  return path;
}

const rows = Array.from({ length: 8 }, (_, at) => ({ step: 1, group: at >> 1, output: `o ${at}`, reward: at % 2 }));

describe('a log in a zip file', () => {
  it('of Inspect has a row a sample, its id as the group and its first score as the reward', async () => {
    const { steps, errors } = await readAll(INSPECT);
    expect(errors).toEqual([]);
    expect(steps).toHaveLength(1);
    expect(steps[0]).toMatchObject({ format: 'inspect', rows: 12 });
    expect(steps[0]?.groupIds).toEqual(['0', '1', '2', '3']);
    expect([...(steps[0]?.reward ?? [])].every((reward) => reward === 0 || reward === 1)).toBe(true);
    expect(steps[0]?.output?.every((text) => text?.includes('topic'))).toBe(true);
  });

  it('has the rows of its members, one after the other', async () => {
    const path = zipped('train.jsonl.zip', {
      'a/x.jsonl': jsonLines(rows.slice(0, 4)).trimEnd(),
      'y.jsonl': jsonLines(rows.slice(4)),
      'notes.txt': 'no JSON',
    });
    const { steps, errors } = await readAll(path);
    expect(errors).toEqual([]);
    expect(steps[0]?.output).toEqual(rows.map(({ output }) => output));
  });

  it('that is cut or damaged is refused', async () => {
    const whole = readFileSync(INSPECT);
    for (const [name, bytes] of [
      ['cut.eval', whole.subarray(0, 3000)],
      ['text.eval', Buffer.from('no zip')],
      ['damaged.eval', Buffer.concat([whole.subarray(0, 400), Buffer.alloc(200), whole.subarray(600)])],
    ] as const) {
      const path = join(root, name);
      writeFileSync(path, bytes);
      const { errors } = await readAll(path);
      expect(errors[0], name).toBeInstanceOf(FileError);
      expect(errors[0]?.message).not.toContain('savez');
    }
  });
});
