// `collapsar formats`: the rollout logs that can be read, and what makes each trainer write one.
import { FORMATS, PICKLED_ADVICE } from '../../logs/rollouts/formats/index.js';
import { EXIT } from '../output/exit-codes.js';
import type { Streams } from '../output/streams.js';
import { widthOf } from '../output/table.js';
import { painter } from '../output/text-style.js';
import { wrap } from '../output/text-wrap.js';

/** @returns exit status */
export async function formatsCommand({ json }: { json?: true }, { out, environment }: Streams): Promise<number> {
  const formats = FORMATS.map(({ name, containers, needs, setting }) => ({ name, containers, needs, setting }));
  if (json) {
    await out.write(`${JSON.stringify(formats, null, 2)}\n`);
    return EXIT.ok;
  }
  const [width, paint] = [widthOf(out, environment), painter(out, environment)];
  const parts = formats.map(({ name, containers, needs, setting }) =>
    [
      `${paint('bold', name)}  (${containers.join(', ')})`,
      wrap(`recognised by ${needs}`, width, '  '),
      wrap(`written with ${setting}`, width, '  '),
    ].join('\n'),
  );
  const rest = [
    "Tables of anyone's, also CSV: --columns step=…,group=…,output=…,reward=…",
    `Pickles (slime, .pt, .pkl): ${PICKLED_ADVICE}`,
  ];
  await out.write(`${[...parts, ...rest.map((text) => wrap(text, width))].join('\n')}\n`);
  return EXIT.ok;
}
