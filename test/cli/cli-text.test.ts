// The pieces that the command line's text is made of.
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { shortBytes, shortDuration, shortNumber } from '../../src/checks/numbers.js';
import { nearest } from '../../src/cli/options/nearest.js';
import { Progress } from '../../src/cli/output/progress.js';
import { RowChoice } from '../../src/cli/output/screen/row-choice.js';
import { characterAt, ribbon, sparkline } from '../../src/cli/output/screen/sparkline.js';
import { textStream } from '../../src/cli/output/streams.js';
import { type Column, layoutTable, widthOf } from '../../src/cli/output/table.js';
import { isUnicode } from '../../src/cli/output/text-style.js';
import { fitted, textWidth } from '../../src/cli/output/text-width.js';
import { wrap } from '../../src/cli/output/text-wrap.js';
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

  it('are short for bytes and seconds', () => {
    expect([0, 999, 1500, 123e6, 2.5e12].map(shortBytes)).toEqual(['0 B', '999 B', '1.5 kB', '123 MB', '2.5 TB']);
    expect([0, 59.6, 187, 7387].map(shortDuration)).toEqual(['0:00', '1:00', '3:07', '2:03:07']);
  });
});

describe('sparkline', () => {
  const whole = { low: 0, high: 8 };

  it('stands on its scale, not on its own lowest and highest value', () => {
    expect(sparkline([0, 1, 2, 3, 4, 5, 6, 7], 60, whole, true)).toBe('▁▂▃▄▅▆▇█');
    expect(sparkline([3, 4], 60, whole, true)).toBe('▄▅');
    expect(sparkline([7, 0], 60, whole, false)).toBe('#_');
    expect(sparkline([-1, 9], 60, whole, true)).toBe('▁█');
  });

  it('leaves gaps, and is empty where there is nothing', () => {
    expect(sparkline([0, Number.NaN, undefined, 8], 60, whole, true)).toBe('▁  █');
    expect(sparkline([0, 0], 60, { low: 0, high: 0 }, true)).toBe('▁▁');
    expect(sparkline([], 60, whole, true)).toBe('');
  });

  it('draws what is no higher than chance as a line', () => {
    const share = { low: 0, high: 1 };
    expect(sparkline([0.9, 0.3, 0.1, 0.2], 60, share, true, 0.15)).toBe('█▃╌╌');
    expect(sparkline([0.9, 0.1], 60, share, false, 0.15)).toBe('#~');
  });

  it('shows the means of neighbours where there are more values than room', () => {
    const line = sparkline(
      Array.from({ length: 1000 }, (_, at) => at),
      8,
      { low: 0, high: 1000 },
      true,
    );
    expect(line).toBe('▁▂▃▄▅▆▇█');
  });

  it('has in each column of the ribbon below what most of its steps are', () => {
    const states = [undefined, undefined, 'D', 'D', 'D', 'T', 'T', 'T', 'T', 'T'];
    expect(ribbon(states, 60, true)).toBe('··DDDTTTTT');
    expect(ribbon(states, 5, true)).toBe('·DTTT');
    expect(ribbon([undefined], 5, false)).toBe('.');
  });

  it('finds the column of a step, however many steps a column has', () => {
    for (const [count, width] of [
      [10, 60],
      [51, 41],
      [403, 57],
    ] as const) {
      const letters = Array.from({ length: count }, () => 'D');
      for (let index = 0; index < count; index++) {
        const column = characterAt(index, count, width);
        // A column that is all T shows it: all its steps are those that columnOf sends there.
        const marked = letters.map((letter, at) => (characterAt(at, count, width) === column ? 'T' : letter));
        expect(ribbon(marked, width, true).indexOf('T')).toBe(column);
        expect(ribbon(marked, width, true).match(/T/g)).toHaveLength(1);
      }
    }
  });

  it.each([
    [{ LANG: 'C' }, false],
    [{ LANG: 'de_DE.UTF-8' }, true],
    [{ LANG: 'de_DE.UTF-8', LC_ALL: 'POSIX' }, false],
    [{}, true],
  ])('is unicode under %j: %s', (environment, unicode) => {
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
    expect(layoutTable([column('step', '1', '100'), column('MI', '1.25', '0.1')], 80, plain).text).toBe(
      ['  step    MI', '     1  1.25', '   100   0.1'].join('\n'),
    );
  });

  it('leaves out what does not fit, the most dispensable first, and says what', () => {
    const columns = [column('step', '1'), column('aaaaaaaa', '2'), column('bbbbbbbb', '3')];
    expect(layoutTable(columns, 20, plain)).toEqual({
      text: ['  step  aaaaaaaa', '     1         2'].join('\n'),
      leftOut: ['bbbbbbbb'],
    });
    const [step, a, b] = columns as Column[] as [Column, Column, Column];
    expect(layoutTable([step, { ...a, dispensable: 1 }, b], 20, plain).leftOut).toEqual(['aaaaaaaa']);
    expect(layoutTable(columns, 3, plain).leftOut).toEqual(['aaaaaaaa', 'bbbbbbbb']);
  });

  it('aligns painted cells as if they were plain, and wide characters by what they take', () => {
    const painted = layoutTable([column('x', '1', '10')], 80, (style, text) => `<${style}>${text}`);
    expect(painted.text).toBe(['  <dim> x', '   1', '  10'].join('\n').replace('<dim> x', ' <dim>x'));
    expect(layoutTable([column('x', '崩溃', 'abc')], 80, plain).text.split('\n')).toEqual([
      '     x',
      '  崩溃',
      '   abc',
    ]);
  });
});

describe('the width of a text', () => {
  it.each([
    ['abc', 3],
    ['▁█→', 3],
    ['模板', 4],
    ['e\u0301', 1],
    ['👩‍🚀', 2],
    ['\u001b[31mred\u001b[39m', 3],
  ])('of %j is %i', (text, width) => {
    expect(textWidth(text)).toBe(width);
  });

  it('cuts a text at the end of a character', () => {
    expect(fitted('abcdef', 6, '…')).toBe('abcdef');
    expect(fitted('abcdef', 4, '…')).toBe('abc…');
    expect(fitted('模板崩溃', 6, '…')).toBe('模板…');
  });
});

describe('the choice of rows', () => {
  const chosen = (count: number, most: number, ranks: Record<number, number> = {}): number[] => {
    const choice = new RowChoice<number>(most);
    for (let at = 0; at < count; at++) choice.add(at, ranks[at] ?? 0);
    return choice.rows();
  };

  it('has all where there is room', () => {
    expect(chosen(5, 12)).toEqual([0, 1, 2, 3, 4]);
    expect(chosen(1, 12)).toEqual([0]);
    expect(chosen(1000, Number.POSITIVE_INFINITY)).toHaveLength(1000);
  });

  it('has the first, the last, and of the rest some at even distances, however many come', () => {
    for (const count of [13, 51, 403, 100_000]) {
      const rows = chosen(count, 12);
      expect(rows).toHaveLength(12);
      expect([rows[0], rows.at(-1)]).toEqual([0, count - 1]);
      const gaps = rows.slice(1).map((at, index) => at - (rows[index] as number));
      expect(Math.max(...gaps)).toBeLessThanOrEqual(count / 4);
    }
  });

  it('has the rows before and at a change, the gravest first', () => {
    expect(chosen(10_000, 12, { 5000: 4, 7000: 2 })).toEqual(expect.arrayContaining([4999, 5000, 6999, 7000]));
    const restless = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [at * 20 + 10, 1]));
    const rows = chosen(10_000, 12, { ...restless, 9990: 4 });
    expect(rows).toHaveLength(12);
    expect(rows).toEqual(expect.arrayContaining([0, 9989, 9990, 9999]));
  });
});

describe('the nearest names', () => {
  const names = ['template_collapse', 'mi_falling', 'mi', 'chance', 'p'];
  it.each([
    ['tempalte_colapse', ['template_collapse']],
    ['falling', ['mi_falling']],
    ['chanse', ['chance']],
    ['something else', []],
  ])('of %s are %j', (word, expected) => {
    expect(nearest(word, names)).toEqual(expected);
  });
});

describe('wrap', () => {
  it('breaks at spaces and indents under its lead', () => {
    expect(wrap('one two three four', 12, ' a  ')).toBe(' a  one two\n    three\n    four');
    expect(wrap('模板 崩溃 plain', 10)).toBe('模板 崩溃\nplain');
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
    expect(widthOf(ofWidth(0))).toBe(80);
    expect([30, 80, 200, 500].map((columns) => widthOf(ofWidth(columns)))).toEqual([40, 80, 200, 200]);
    // Into a pipe the variable says what a terminal would.
    expect(widthOf({ columns: undefined }, { COLUMNS: '120' })).toBe(120);
    expect(widthOf({ columns: 90 }, { COLUMNS: '120' })).toBe(90);
    expect(widthOf({ columns: undefined }, { COLUMNS: 'wide' })).toBe(80);
  });
});
