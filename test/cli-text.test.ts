// The pieces that the command line's text is made of.
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { shortBytes, shortDuration, shortNumber } from '../src/cli/number-format.js';
import { Progress } from '../src/cli/progress.js';
import { sparkline } from '../src/cli/sparkline.js';
import { textStream } from '../src/cli/streams.js';
import { layoutTable, widthOf } from '../src/cli/table.js';
import { isUnicode } from '../src/cli/text-style.js';
import { wrap } from '../src/cli/text-wrap.js';
import { keeping } from './cli-streams.js';

describe('numbers', () => {
  it.each([
    [0, '0.000'],
    [0.8056, '0.806'],
    [-0.0226, '-0.023'],
    [1.2547, '1.25'],
    [12.345, '12.3'],
    [1780.4, '1780'],
    [123456, '1.2e5'],
    [0.00081, '8.1e-4'],
    [Number.NaN, 'NaN'],
    [null, 'NaN'],
    [Number.NEGATIVE_INFINITY, '-inf'],
    [undefined, '—'],
  ])('%d is %s', (value, text) => {
    expect(shortNumber(value)).toBe(text);
  });

  it('of bytes and seconds', () => {
    expect([0, 999, 1500, 123e6, 2.5e12].map(shortBytes)).toEqual(['0 B', '999 B', '1.5 kB', '123 MB', '2.5 TB']);
    expect([0, 59.6, 187, 7387].map(shortDuration)).toEqual(['0:00', '1:00', '3:07', '2:03:07']);
  });
});

describe('sparkline', () => {
  it('goes from the lowest to the highest bar', () => {
    expect(sparkline([0, 1, 2, 3, 4, 5, 6, 7], 60, true)).toBe('▁▂▃▄▅▆▇█');
    expect(sparkline([7, 0], 60, false)).toBe('#_');
  });

  it('leaves gaps, keeps constants in the middle, and is empty where there is nothing', () => {
    expect(sparkline([0, Number.NaN, undefined, 1], 60, true)).toBe('▁  █');
    expect(sparkline([3, 3], 60, true)).toBe('▅▅');
    expect(sparkline([], 60, true)).toBe('');
  });

  it('shows the means of neighbours where there are more values than room', () => {
    const line = sparkline(
      Array.from({ length: 1000 }, (_, at) => at),
      8,
      true,
    );
    expect(line).toBe('▁▂▃▄▅▆▇█');
  });

  it.each([
    [{ LANG: 'C' }, false],
    [{ LANG: 'de_DE.UTF-8' }, true],
    [{ LANG: 'de_DE.UTF-8', LC_ALL: 'POSIX' }, false],
    [{}, true],
  ])('under %j: unicode %s', (environment, unicode) => {
    expect(isUnicode(environment)).toBe(unicode);
  });
});

describe('table', () => {
  const plain = (_: unknown, text: string) => text;
  const column = (title: string, ...texts: string[]) => ({
    title,
    cells: texts.map((text) => ({ text })),
    align: 'right' as const,
  });

  it('aligns its columns', () => {
    expect(layoutTable([column('step', '1', '100'), column('MI', '1.25', '0.1')], 80, plain)).toBe(
      ['  step    MI', '     1  1.25', '   100   0.1'].join('\n'),
    );
  });

  it('breaks into panels that repeat the first column', () => {
    const columns = [column('step', '1'), column('aaaaaaaa', '2'), column('bbbbbbbb', '3')];
    expect(layoutTable(columns, 20, plain)).toBe(
      ['  step  aaaaaaaa', '     1         2', '', '  step  bbbbbbbb', '     1         3'].join('\n'),
    );
  });

  it('aligns painted cells as if they were plain', () => {
    const painted = layoutTable([column('x', '1', '10')], 80, (style, text) => `<${style}>${text}`);
    expect(painted).toBe(['  <dim> x', '   1', '  10'].join('\n').replace('<dim> x', ' <dim>x'));
  });
});

describe('wrap', () => {
  it('breaks at spaces and indents under its lead', () => {
    expect(wrap('one two three four', 12, ' a  ')).toBe(' a  one two\n    three\n    four');
  });
});

describe('progress', () => {
  const state = { done: 50, total: 200, bytes: 5e9, totalBytes: 20e9, file: 'x' };

  it('elsewhere than on a terminal is a line every five seconds', () => {
    let now = 0;
    const stream = keeping();
    const progress = new Progress(stream, true, () => now);
    now = 4000;
    progress.update(state);
    expect(stream.pieces).toEqual([]);
    now = 5000;
    progress.update(state);
    now = 6000;
    progress.update(state);
    progress.clear();
    expect(stream.pieces).toEqual(['50/200 steps  10 steps/s  1.0 GB/s  ETA 0:15\n']);
  });

  it('tells how many files have been looked at before, and starts its rates when they are through', () => {
    let now = 0;
    const stream = keeping();
    const progress = new Progress(stream, true, () => now);
    now = 5000;
    progress.listing({ done: 1000, total: 4000, file: 'x' });
    now = 20_000;
    progress.listing({ done: 4000, total: 4000, file: 'y' });
    now = 30_000;
    progress.update(state);
    expect(stream.pieces).toEqual([
      'looking at files: 1000/4000  200 files/s  ETA 0:15\n',
      'looking at files: 4000/4000  200 files/s  ETA 0:00\n',
      '50/200 steps  5.0 steps/s  500 MB/s  ETA 0:30\n',
    ]);
  });

  it('on a terminal is a bar that fits it and can be cleared', () => {
    let now = 0;
    const stream = keeping({ isTTY: true, columns: 60 });
    const progress = new Progress(stream, false, () => now);
    now = 5000;
    progress.update(state);
    progress.clear();
    progress.clear();
    expect(stream.pieces).toHaveLength(2);
    expect(stream.pieces[0]).toContain('######------------------ 50/200 steps');
    expect(stream.pieces[0]?.length).toBeLessThanOrEqual(60 + '\r\u001b[K'.length);
    expect(stream.pieces[1]).toBe('\r\u001b[K');
  });

  it('on a dumb terminal, which cannot take a line back, is a line as elsewhere', () => {
    let now = 0;
    const stream = keeping({ isTTY: true, columns: 60 });
    const progress = new Progress(stream, false, () => now, false);
    now = 5000;
    progress.update(state);
    progress.clear();
    expect(stream.pieces).toEqual([expect.stringMatching(/^50\/200 steps .*\n$/)]);
  });

  it('steers no terminal by what stands in JSON, which is the same elsewhere', async () => {
    const text = JSON.stringify({ run: 'a\u001b\u009b31m\u202eß' });
    const written = async (isTTY: boolean): Promise<string> => {
      const stream = Object.assign(new PassThrough({ encoding: 'utf8' }), { isTTY });
      await textStream(stream, 'stdout').write(text);
      return stream.read() as string;
    };
    const shown = await written(true);
    expect(shown).toBe('{"run":"a\\u001b\\u009b31m\\u202eß"}');
    expect(JSON.parse(shown)).toEqual(JSON.parse(text));
    expect(await written(false)).toBe(text);
  });

  it('takes a terminal that does not know its width for one of the usual width', () => {
    const ofWidth = (columns: number) =>
      textStream(Object.assign(new PassThrough(), { isTTY: true, columns }), 'stdout');
    expect(ofWidth(0).columns).toBeUndefined();
    expect(widthOf(ofWidth(0))).toBe(100);
    expect([30, 80, 200].map((columns) => widthOf(ofWidth(columns)))).toEqual([40, 80, 100]);
  });
});
