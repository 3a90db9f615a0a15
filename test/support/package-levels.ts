// What each subpath of the package gives, by the name that a program imports.
import * as engine from '../../src/exports/engine.js';
import * as filter from '../../src/exports/filter.js';
import * as logs from '../../src/exports/logs.js';
import * as sampling from '../../src/exports/sampling.js';
import * as scoring from '../../src/exports/scoring.js';
import * as sinks from '../../src/exports/sinks.js';

export const levels = {
  'collapsar/filter': filter,
  'collapsar/logs': logs,
  'collapsar/sinks': sinks,
  'collapsar/sampling': sampling,
  'collapsar/scoring': scoring,
  'collapsar/engine': engine,
};
