// Charts as PNG from Node: the same bytes wherever it runs.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { openRasterizer } from '../../src/report/rasterizer.js';
import { collapsar } from '../cli/cli-streams.js';
import { buildIfStale } from '../support/built-command.js';
import { temporaryDirectory } from '../support/temporary-directory.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 200_000 });

const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
/** What the charts are made of: lines, dashes, curves, see-through fills, words. */
const drawing = `<svg xmlns="http://www.w3.org/2000/svg" width="240" height="120">
<rect width="240" height="120" fill="#fff"/>
<path d="M10 100L60 40.5L110 77.3L230 12" fill="none" stroke="#0072b2" stroke-width="1.5" stroke-opacity="0.6"/>
<path d="M10 60L230 60" stroke="#6e7781" stroke-dasharray="4,4"/>
<circle cx="60" cy="40.5" r="4.2" fill="#fff" stroke="#b86e00" stroke-width="1.5"/>
<text x="12" y="20" font-family="system-ui, Segoe UI, Arial, sans-serif" font-size="11" fill="#1b1f24">I(X;Z), ½ of start ✖</text>
</svg>`;

/** Width and height of a PNG. */
const sizeOf = (png: Buffer): number[] => [png.readUInt32BE(16), png.readUInt32BE(20)];

describe('openRasterizer', () => {
  it('makes of a drawing the very bytes that another machine has made', async () => {
    const png = (await openRasterizer())(drawing);
    expect(Buffer.from(png).subarray(1, 4).toString()).toBe('PNG');
    expect(sizeOf(Buffer.from(png))).toEqual([480, 240]);
    expect(digestOf(png)).toBe('9cabb9b8709641d7f9ab2e152385f755c18b21f37696cd283483a77c23dd6a6f');
  });

  it('draws words with the fonts that it brings', async () => {
    const draw = await openRasterizer();
    const words = (text: string): string =>
      digestOf(
        draw(
          `<svg xmlns="http://www.w3.org/2000/svg" width="90" height="30"><text x="5" y="20" font-family="Arial, sans-serif">${text}</text></svg>`,
        ),
      );
    expect(new Set(['', 'a', 'b', '✖ ½ ●'].map(words)).size).toBe(4);
  });

  describe('without its packages', () => {
    afterEach(() => vi.doUnmock('@resvg/resvg-wasm'));

    it('says what to install', async () => {
      vi.resetModules();
      vi.doMock('@resvg/resvg-wasm', () => {
        throw new Error('Cannot find package');
      });
      const fresh = await import('../../src/report/rasterizer.js');
      await expect(fresh.openRasterizer()).rejects.toThrow(
        /^--png: takes the packages .*: npm install @resvg\/resvg-wasm dejavu-fonts-ttf \(/,
      );
    });
  });
});

describe('collapsar report --figures --png', () => {
  beforeAll(buildIfStale);

  it('writes a PNG beside each SVG, twice as wide', async () => {
    const folder = temporaryDirectory();
    const { status, out } = await collapsar([
      'report',
      'examples/data/collapse',
      '--figures',
      folder,
      '--png',
      '--quiet',
    ]);
    expect([status, out]).toEqual([0, expect.stringMatching(/: 1 run, 51 steps, \d+ figures\n$/)]);
    const names = readdirSync(folder);
    const svgs = names.filter((name) => name.endsWith('.svg'));
    expect(svgs.length).toBeGreaterThan(5);
    expect(names.filter((name) => name.endsWith('.png'))).toEqual(svgs.map((name) => name.replace(/svg$/, 'png')));
    for (const name of svgs) {
      const [, width, height] = /width="(\d+)" height="(\d+)"/.exec(readFileSync(join(folder, name), 'utf8')) ?? [];
      const png = readFileSync(join(folder, name.replace(/svg$/, 'png')));
      expect(sizeOf(png), name).toEqual([2 * Number(width), 2 * Number(height)]);
    }
  });
});
