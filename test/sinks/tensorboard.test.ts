// Event files: the bytes that TensorBoard's own writer makes, and what its reader finds in a run's folder.
import { execFile, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { viridis } from '../../src/report/charts/colour-scales.js';
import { PAGE_KEYS } from '../../src/sinks/page-keys.js';
import { crc32c } from '../../src/sinks/tensorboard/crc32c.js';
import * as events from '../../src/sinks/tensorboard/events.js';
import { heatMapImage } from '../../src/sinks/tensorboard/heat-map-image.js';
import { histogramOf } from '../../src/sinks/tensorboard/histogram-of.js';
import { TensorBoardSink } from '../../src/sinks/tensorboard/tensorboard-sink.js';
import type { PromptMatrix } from '../../src/step/prompts/prompt-findings.js';
import type { StepReport } from '../../src/step/step-report.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { collapseReports, giveAll, MI, reportWith } from './sink-reports.js';

// Importing tensorboard alone takes seconds.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const folder = temporaryDirectory();
const python = process.env.COLLAPSAR_PYTHON ?? 'python3';
const hasTensorBoard = spawnSync(python, ['-c', 'import tensorboard']).status === 0;

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

describe('crc32c', () => {
  it('is that of the check value of the polynomial', () => {
    expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
    expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa); // RFC 3720, B.4
  });
});

describe('an event', () => {
  const time = 1700000000.25;

  // Written by tensorboard 2's RecordWriter.
  it('has the bytes that TensorBoard writes for the version', () => {
    expect(hex(events.versionEvent(time))).toBe(
      '1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9',
    );
  });

  it('has the bytes that TensorBoard writes for a restart', () => {
    expect(hex(events.restartEvent(time, 300))).toBe(
      '100000000000000095fbfe180900001040fc54d94110ac023a0208016b3b88f1',
    );
  });

  it('has the bytes that TensorBoard writes for a scalar and a histogram', () => {
    const shape = { min: 1, max: 3, count: 3, sum: 6, squares: 14, edges: [1, 2, 3], counts: [0, 2, 1] };
    const values = [events.scalar('a/mi', 0.25), events.histogram('h', shape)];
    expect(hex(events.summaryEvent(time, 70000, values))).toBe(
      '8400000000000000411d8aef0900001040fc54d94110f0a2042a750a0b0a04612f6d69150000803e0a660a01682a6109000000000000f03f' +
        '110000000000000840190000000000000840210000000000001840290000000000002c403218000000000000f03f00000000000000400000' +
        '0000000008403a1800000000000000000000000000000040000000000000f03fd1c7fdf3',
    );
  });

  it('has the bytes that TensorBoard writes for a text and for margin charts', () => {
    expect(hex(events.summaryEvent(time, 5, [events.markdown('v', '**ä**')]))).toBe(
      '3b000000000000001a23ac5c0900001040fc54d94110052a2e0a2c0a0e762f746578745f73756d6d6172794210080712041202080142062a' +
        '2ac3a42a2a4a080a060a0474657874fdbdd11c',
    );
    const chart = { title: 'MI', value: 'v', lower: 'l', upper: 'u' };
    expect(hex(events.summaryEvent(time, 5, [events.marginCharts('collapsar', [chart])]))).toBe(
      '6300000000000000b16b13d90900001040fc54d94110052a560a540a18637573746f6d5f7363616c6172735f5f636f6e6669675f5f422408' +
        '074220121e0a09636f6c6c617073617212110a024d491a0b0a090a017612016c1a01754a120a100a0e637573746f6d5f7363616c617273e0' +
        'dec0b6',
    );
  });
});

describe('histogramOf', () => {
  it('counts every finite number once, in the bucket that it belongs to', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: -1e6, max: 1e6, noNaN: true }), { minLength: 1 }), (values) => {
        const { edges, counts, count, sum } = histogramOf([...values, Number.NaN]) as events.Histogram;
        expect(counts.reduce((a, b) => a + b)).toBe(values.length);
        expect(count).toBe(values.length);
        expect(sum).toBeCloseTo(
          values.reduce((a, b) => a + b, 0),
          3,
        );
        expect(edges.at(-1)).toBe(Math.max(...values));
        expect(edges[0]).toBe(Math.min(...values));
        expect(edges).toHaveLength(counts.length);
      }),
    );
  });

  it('is none where there is no finite number', () => {
    expect(histogramOf([Number.NaN, Number.POSITIVE_INFINITY])).toBeUndefined();
  });
});

/** The records of a file, each held against its checksums. */
function recordsOf(path: string): Buffer[] {
  const bytes = readFileSync(path);
  const records: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = Number(bytes.readBigUInt64LE(at));
    const whole = bytes.subarray(at, at + 16 + length);
    const data = whole.subarray(12, 12 + length);
    expect(hex(events.record(data))).toBe(hex(whole));
    records.push(data);
    at += 16 + length;
  }
  return records;
}

describe('heatMapImage', () => {
  const hasPillow = spawnSync(python, ['-c', 'import PIL']).status === 0;
  const decode =
    'import io, json, sys; from PIL import Image; image = Image.open(io.BytesIO(sys.stdin.buffer.read())); image.load(); print(json.dumps([image.size, list(image.convert("RGB").tobytes())]))';

  it.skipIf(!hasPillow)('is a PNG of the cells in the colours of the page, in the order of the start', () => {
    const ids = ['a', 'b', 'c'];
    const start = { ids, posterior: Uint8Array.from([10, 0, 0, 0, 200, 0, 0, 0, 100]) };
    const matrix = { ids, posterior: Uint8Array.from([255, 1, 2, 3, 128, 5, 6, 7, 0]) };
    const { png, width } = heatMapImage(matrix, start);
    const { stdout, stderr } = spawnSync(python, ['-c', decode], { input: png, encoding: 'utf8', maxBuffer: 2 ** 26 });
    expect(stderr).toBe('');
    const [size, bytes] = JSON.parse(stdout) as [[number, number], number[]];
    expect(size).toEqual([width, width]);
    // At the start b fitted best, then c, then a.
    const order = [1, 2, 0];
    const cell = width / 3;
    for (const [row, from] of order.entries()) {
      for (const [column, to] of order.entries()) {
        const at = 3 * (Math.floor((row + 0.5) * cell) * width + Math.floor((column + 0.5) * cell));
        const colour = `#${bytes
          .slice(at, at + 3)
          .map((channel) => channel.toString(16).padStart(2, '0'))
          .join('')}`;
        expect(colour).toBe(viridis((matrix.posterior[3 * from + to] as number) / 255));
      }
    }
  });

  it('has a pixel a cell of very many prompts, and the same bytes for the same cells', () => {
    const ids = Array.from({ length: 700 }, (_, at) => String(at));
    const matrix = { ids, posterior: Uint8Array.from({ length: 490_000 }, (_, at) => at % 251) };
    const { width, png } = heatMapImage(matrix, matrix);
    expect(width).toBe(700);
    expect(heatMapImage(matrix, matrix).png).toEqual(png);
  });
});

let reports: StepReport[];
beforeAll(async () => {
  reports = await collapseReports();
});

describe('TensorBoardSink', () => {
  it('writes a file a run, whose names lead nowhere else', async () => {
    const place = join(folder, 'names');
    const sink = new TensorBoardSink(place);
    for (const run of ['../up', '..', 'a\0b\n', 'ø'])
      await sink.step(reportWith({ run, step: 1, metrics: { [MI]: 1 } }));
    expect(
      readdirSync(place)
        .map((name) => name.replace(/-[0-9a-f]{8}$/, ''))
        .sort(),
    ).toEqual(['.._up', '_..', 'a_b_', 'ø'].sort());
    for (const run of readdirSync(place)) {
      const [name, ...others] = readdirSync(join(place, run));
      expect(others).toEqual([]);
      expect(name).toMatch(/^events\.out\.tfevents\.\d{10}\.[^/]+\.\d+\.\d+$/);
      expect(recordsOf(join(place, run, name as string))).toHaveLength(2);
    }
  });

  it('rejects where it cannot write', async () => {
    const taken = join(folder, 'taken');
    mkdirSync(taken);
    const sink = new TensorBoardSink(join(taken, '\0'));
    await expect(sink.step(reportWith({ run: 'r', step: 1, metrics: {} }))).rejects.toThrow();
  });

  it.skipIf(!hasTensorBoard)('gives the real reader every value, chart, histogram and verdict', async () => {
    const place = join(folder, 'read');
    await giveAll(new TensorBoardSink(place), reports);
    const found = await read(join(place, 'collapse'));
    expect(found.scalars[MI]).toEqual(reports.map(({ step, metrics }) => [step, Math.fround(metrics[MI] as number)]));
    const [first] = reports as [StepReport];
    expect(Object.keys(found.scalars).sort()).toEqual(
      Object.keys({ ...first.metrics, ...first.certainty })
        .filter((key) => PAGE_KEYS.has(key))
        .sort(),
    );
    expect(Object.keys(found.scalars)).toHaveLength(23);
    expect(found.charts[0]).toEqual([MI, `${MI}_batch_low`, `${MI}_batch_high`]);
    for (const tag of found.charts.flat()) expect(found.scalars).toHaveProperty([tag]);
    expect(found.histograms['prompts/reward_std']).toEqual(
      reports.map(({ step, judgement }) => [step, judgement?.triage.length]),
    );
    expect(first.prompts).toHaveLength(16);
    expect(found.histograms['prompts/mi']).toEqual(reports.map(({ step, prompts }) => [step, prompts?.length]));
    const said = reports.flatMap(({ judgement, step }) =>
      (judgement?.verdicts ?? []).filter(({ raised }) => raised === step).map((verdict) => [step, verdict.sentence]),
    );
    expect(said.length).toBeGreaterThan(0);
    for (const [step, sentence] of said) {
      expect(found.texts.some(([at, text]) => at === step && text.includes(sentence as string))).toBe(true);
    }
    // The start, and where a verdict is new or graver: once a step.
    const told = [...new Set([first.step, ...found.texts.map(([step]) => step)])].sort((a, b) => a - b);
    expect(found.images.map(([step]) => step)).toEqual(told);
    expect(told.length).toBeGreaterThan(said.length);
    for (const [step, width, height, hex] of found.images) {
      const matrix = reports.find((report) => report.step === step)?.matrix as PromptMatrix;
      const { png } = heatMapImage(matrix, first.matrix as PromptMatrix);
      expect([width, height, hex]).toEqual([320, 320, Buffer.from(png).toString('hex')]);
    }
  });

  it.skipIf(!hasTensorBoard)('gives the real reader all figures where they are asked for', async () => {
    const place = join(folder, 'all');
    await giveAll(new TensorBoardSink(place, 'all'), reports.slice(0, 2));
    const found = await read(join(place, 'collapse'));
    const { metrics, certainty } = reports[0] as StepReport;
    const finite = Object.entries({ ...metrics, ...certainty }).filter(([, value]) => Number.isFinite(value));
    for (const [tag] of finite) expect(found.scalars).toHaveProperty([tag]);
  });

  it.skipIf(!hasTensorBoard)('takes a step back where a run goes on from an earlier one', async () => {
    const place = join(folder, 'again');
    const at = (step: number, value: number): StepReport => reportWith({ run: 'r', step, metrics: { [MI]: value } });
    await giveAll(new TensorBoardSink(place), [at(1, 1), at(2, 2), at(3, 3), at(4, 4)]);
    await giveAll(new TensorBoardSink(place), [at(3, 30), at(4, 40)]);
    const { scalars } = await read(join(place, 'r'));
    expect(scalars[MI]).toEqual([
      [1, 1],
      [2, 2],
      [3, 30],
      [4, 40],
    ]);
  });
});

interface Read {
  scalars: Record<string, [number, number][]>;
  histograms: Record<string, [number, number][]>;
  texts: [number, string][];
  images: [number, number, number, string][];
  charts: string[][];
}

const READ = `
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0, "tensors": 0, "images": 0})
events.Reload()
tags = events.Tags()
charts = []
layout = layout_pb2.Layout()
texts = []
for tag in tags["tensors"]:
    for event in events.Tensors(tag):
        if tag == "custom_scalars__config__":
            layout.ParseFromString(event.tensor_proto.string_val[0])
        elif tag.endswith("/text_summary"):
            texts.append([event.step, event.tensor_proto.string_val[0].decode()])
for category in layout.category:
    for chart in category.chart:
        for series in chart.margin.series:
            charts.append([series.value, series.lower, series.upper])
print(json.dumps({
    "scalars": {tag: [[event.step, event.value] for event in events.Scalars(tag)] for tag in tags["scalars"]},
    "histograms": {tag: [[event.step, int(sum(event.histogram_value.bucket))] for event in events.Histograms(tag)] for tag in tags["histograms"]},
    "texts": texts,
    "images": [[event.step, event.width, event.height, event.encoded_image_string.hex()] for tag in tags["images"] for event in events.Images(tag)],
    "charts": charts,
}))
`;

async function read(path: string): Promise<Read> {
  const { stdout } = await promisify(execFile)(python, ['-c', READ, path], { maxBuffer: 2 ** 26 });
  return JSON.parse(stdout) as Read;
}
