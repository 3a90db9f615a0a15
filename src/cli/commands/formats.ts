// `collapsar formats`: the rollout logs that can be read, and what makes each trainer write one.
import type { Command } from 'commander';
import { PICKLED_ADVICE } from '../../logs/rollouts/format.js';
import { FORMATS } from '../../logs/rollouts/formats/index.js';
import { EXIT } from '../output/exit-codes.js';
import type { Streams } from '../output/streams.js';
import { widthOf } from '../output/table.js';
import { painter } from '../output/text-style.js';
import { wrap } from '../output/text-wrap.js';

/** @param done takes the exit status */
export function define(command: Command, streams: Streams, done: (status: number) => void): void {
  command
    .option('--json', 'print one JSON array')
    .action(async (flags: { json?: true }) => done(await formatsCommand(flags, streams)));
}

/** @returns exit status */
export async function formatsCommand({ json }: { json?: true }, { out, environment }: Streams): Promise<number> {
  const formats = FORMATS.map(({ name, containers, needs, setting, gives }) => ({
    name,
    containers,
    needs,
    setting: plain(setting),
    gives: plain(gives),
  }));
  if (json) {
    await out.write(`${JSON.stringify(formats, null, 2)}\n`);
    return EXIT.ok;
  }
  const [width, paint] = [widthOf(out, environment), painter(out, environment)];
  const parts = formats.map(({ name, containers, needs, setting, gives }) =>
    [
      `${paint('bold', name)}  (${containers.join(', ')})`,
      wrap(`recognised by ${needs}`, width, '  '),
      wrap(`written with ${setting}`, width, '  '),
      wrap(`gives ${gives}`, width, '  '),
    ].join('\n'),
  );
  const rest = [
    "Tables of anyone's, also CSV: --columns step=…,group=…,output=…,reward=…",
    `Pickles (slime, .pt, .pkl): ${PICKLED_ADVICE}`,
  ];
  await out.write(`${[...parts, ...rest.map((text) => wrap(text, width))].join('\n')}\n`);
  return EXIT.ok;
}

/** A text of the pages without their marks. */
function plain(text: string): string {
  return text.replaceAll('`', '').replace(/\[([^\]]+)\]\([^)]+\)/g, '$1');
}
