// What each subpath of the package gives, by the name that a program imports.
import * as engine from '../../src/exports/engine.js';
import * as logs from '../../src/exports/logs.js';
import * as sampling from '../../src/exports/sampling.js';
import * as scoring from '../../src/exports/scoring.js';

export const levels = {
  'collapsar/logs': logs,
  'collapsar/sampling': sampling,
  'collapsar/scoring': scoring,
  'collapsar/engine': engine,
};
