// engine.gatherScores: options, checks, native call, result.

import type { OperationOptions } from '../../checks/operation-options.js';
import { is, OPERATION, type OptionTable } from '../../checks/options.js';
import type { EngineCore } from '../engine-core.js';
import { noteEngineMemory } from '../memory.js';
import type { NativeResults } from '../native.js';
import { optionalIntegers } from '../tensor/integers.js';
import type { HostTensor, Integers, Tensor } from '../tensor/tensor.js';
import { matrixArguments, viewHostTensor } from '../tensor/tensor-view.js';

/** Options of `engine.gatherScores`. */
export interface GatherOptions extends OperationOptions {
  rows?: Integers | undefined;
  columns?: Integers | undefined;
}

const GATHER_OPTIONS: OptionTable<GatherOptions> = { rows: is.any, columns: is.any, ...OPERATION };

/** Engine.gatherScores() */
export async function gatherScores(engine: EngineCore, sums: Tensor, options: GatherOptions = {}): Promise<HostTensor> {
  engine.begin('gatherScores', options, GATHER_OPTIONS);
  const view = viewHostTensor(sums, 'sums', 'scores [R, P]', [2]);
  const rows = optionalIntegers(options.rows, 'options.rows');
  const columns = optionalIntegers(options.columns, 'options.columns');
  return engine.jobs.run<NativeResults['gatherScores'], HostTensor>(
    'gatherScores',
    options,
    (settle, held) => engine.native.gatherScores(settle, ...matrixArguments(view, 'sums', held), rows, columns),
    (gathered) => ({
      data: noteEngineMemory(gathered.data),
      dtype: 'float64',
      shape: [gathered.rows, gathered.columns],
    }),
  );
}
