// TensorBoard's events as bytes (tensorflow: event.proto, summary.proto, tensor.proto), framed as TFRecords.
import { maskedCrc } from './crc32c.js';
import { double, doubles, float, integer, message, text } from './protobuf.js';

type Bytes = Uint8Array;

const DT_STRING = 7;
const SESSION_START = 1;

/** Length, its checksum, data, their checksum. */
export function record(data: Bytes): Bytes {
  const head = Buffer.alloc(12);
  head.writeBigUInt64LE(BigInt(data.length));
  head.writeUInt32LE(maskedCrc(head.subarray(0, 8)), 8);
  const tail = Buffer.alloc(4);
  tail.writeUInt32LE(maskedCrc(data));
  return Buffer.concat([head, data, tail]);
}

/** The first event of a file. @param time Unix seconds */
export function versionEvent(time: number): Bytes {
  return record(Buffer.concat([double(1, time), text(3, 'brain.Event:2')]));
}

/** Tells readers to forget what earlier files hold from this step on. */
export function restartEvent(time: number, step: number): Bytes {
  return record(Buffer.concat([double(1, time), integer(2, step), message(7, [integer(1, SESSION_START)])]));
}

/** @param values what `scalar` and the others give */
export function summaryEvent(time: number, step: number, values: readonly Bytes[]): Bytes {
  return record(Buffer.concat([double(1, time), integer(2, step), message(5, values)]));
}

export function scalar(tag: string, value: number): Bytes {
  return message(1, [text(1, tag), float(2, value)]);
}

export interface Histogram {
  readonly min: number;
  readonly max: number;
  readonly count: number;
  readonly sum: number;
  readonly squares: number;
  /** Upper edge of each bucket. */
  readonly edges: readonly number[];
  readonly counts: readonly number[];
}

export function histogram(tag: string, { min, max, count, sum, squares, edges, counts }: Histogram): Bytes {
  const fields = [double(1, min), double(2, max), double(3, count), double(4, sum), double(5, squares)];
  return message(1, [text(1, tag), message(5, [...fields, doubles(6, edges), doubles(7, counts)])]);
}

const RGB = 3;

/** A PNG, in the tab Images. */
export function image(tag: string, width: number, height: number, png: Bytes): Bytes {
  return message(1, [text(1, tag), message(4, [integer(1, height), integer(2, width), integer(3, RGB), text(4, png)])]);
}

/** Markdown, in the tab Text. */
export function markdown(tag: string, content: string): Bytes {
  const shape = message(2, [message(2, [integer(1, 1)])]);
  return message(1, [
    text(1, `${tag}/text_summary`),
    message(8, [integer(1, DT_STRING), shape, text(8, content)]),
    message(9, [message(1, [text(1, 'text')])]),
  ]);
}

/** A chart of a value between its bounds, by the tags of the scalars. */
export interface MarginChart {
  readonly title: string;
  readonly value: string;
  readonly lower: string;
  readonly upper: string;
}

/** What the tab Custom Scalars shows. */
export function marginCharts(category: string, charts: readonly MarginChart[]): Bytes {
  const drawn = charts.map(({ title, value, lower, upper }) =>
    message(2, [text(1, title), message(3, [message(1, [text(1, value), text(2, lower), text(3, upper)])])]),
  );
  const layout = message(2, [text(1, category), ...drawn]);
  return message(1, [
    text(1, 'custom_scalars__config__'),
    message(8, [integer(1, DT_STRING), text(8, layout)]),
    message(9, [message(1, [text(1, 'custom_scalars')])]),
  ]);
}
