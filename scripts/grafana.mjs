// grafana/: the dashboard and the alert rules, made of the table of metrics that /metrics is written from, so that no
// panel asks for a name that is not there. `node scripts/grafana.mjs` writes both; a test says when they are old.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { stringify } from 'yaml';
import { root } from './stage.mjs';

const SAMPLES = ['first_turn', 'trajectory', 'turn', 'text'];
const SOURCE = { type: 'prometheus', uid: '$datasource' };

/** @param {{ FIGURES: object[], STEP_FIGURES: object[], STATE: Record<string, object> }} table */
export function dashboard({ FIGURES, STEP_FIGURES, STATE }) {
  const named = nameIn([...FIGURES, ...STEP_FIGURES, ...Object.values(STATE)]);
  let id = 0;
  const target = (expr, legendFormat, more = {}) => ({
    refId: String.fromCharCode(65 + (more.at ?? 0)),
    datasource: SOURCE,
    expr,
    legendFormat,
    ...(more.instant ? { instant: true, range: false, format: 'table' } : {}),
  });
  const panel = (
    type,
    title,
    [x, y, w, h],
    targets,
    { defaults = {}, overrides = /** @type {object[]} */ ([]), ...more } = {},
  ) => ({
    id: ++id,
    type,
    title,
    datasource: SOURCE,
    gridPos: { x, y, w, h },
    targets: targets.map(([expr, legend, options], at) => target(expr, legend, { at, ...options })),
    fieldConfig: { defaults: { unit: 'none', ...defaults }, overrides },
    ...more,
  });
  const of = (name) => `${named(name)}{run=~"$run"}`;
  const hidden = (regexp, properties) => ({ matcher: { id: 'byRegexp', options: regexp }, properties });
  const byName = (options, properties) => ({ matcher: { id: 'byName', options }, properties });
  const line = (title, at, targets, more) => panel('timeseries', title, at, targets, more);
  const states = [
    ['diverse', 'green'],
    ['template_collapse', 'red'],
    ['compressed', 'orange'],
    ['low_entropy_collapse', 'purple'],
    ['undecided', 'gray'],
  ];
  const panels = [
    panel(
      'stat',
      'Critical verdicts that hold',
      [0, 0, 6, 4],
      [[`sum by (run) (${named('verdict_active')}{run=~"$run", severity="critical"})`, '{{run}}']],
      {
        defaults: {
          thresholds: {
            mode: 'absolute',
            steps: [
              { color: 'green', value: null },
              { color: 'red', value: 1 },
            ],
          },
        },
      },
    ),
    panel('stat', 'Training step', [6, 0, 6, 4], [[of('training_step'), '{{run}}']]),
    panel(
      'stat',
      'Since the last step',
      [12, 0, 6, 4],
      [[`time() - ${of('last_step_timestamp_seconds')}`, '{{run}}']],
      { defaults: { unit: 's' } },
    ),
    panel('stat', 'I(X;Z), share of the start', [18, 0, 6, 4], [[of('mi_start_ratio'), '{{run}}']], {
      defaults: { unit: 'percentunit' },
    }),
    panel('state-timeline', 'Regime', [0, 4, 24, 5], [[`${of('regime')} == 1`, '{{run}}: {{regime}}']], {
      defaults: { custom: { fillOpacity: 80 }, mappings: [{ type: 'value', options: { 1: { text: ' ' } } }] },
      overrides: states.map(([name, color]) =>
        hidden(`/: ${name}$/`, [{ id: 'color', value: { mode: 'fixed', fixedColor: color } }]),
      ),
    }),
    line(
      'I(X;Z) of $run, nats a response, with its 95% interval',
      [0, 9, 12, 9],
      [
        [of('mi_low_nats'), '{{sample}} low'],
        [of('mi_nats'), '{{sample}}'],
        [of('mi_high_nats'), '{{sample}} high'],
      ],
      {
        defaults: { min: 0 },
        // Bands are drawn down to a series by its whole name: so one panel a run, and one rule a sample.
        overrides: SAMPLES.flatMap((sample) => [
          byName(`${sample} low`, [{ id: 'custom.lineWidth', value: 0 }]),
          byName(`${sample} high`, [
            { id: 'custom.lineWidth', value: 0 },
            { id: 'custom.fillBelowTo', value: `${sample} low` },
            { id: 'custom.fillOpacity', value: 15 },
          ]),
        ]),
        repeat: 'run',
        repeatDirection: 'v',
      },
    ),
    line('H(Z|X), nats a token', [12, 9, 12, 9], [[of('entropy_nats_per_token'), '{{run}} {{sample}}']], {
      defaults: { min: 0 },
    }),
    line(
      'Retrieval against chance',
      [0, 18, 12, 8],
      [
        [of('retrieval_ratio'), '{{run}} {{sample}}'],
        [of('retrieval_chance_ratio'), '{{run}} {{sample}} chance'],
      ],
      { defaults: { min: 0, max: 1, unit: 'percentunit' } },
    ),
    line(
      'Reward',
      [12, 18, 12, 8],
      [
        [of('reward_mean'), '{{run}} mean'],
        [of('reward_std'), '{{run}} std over rollouts of a prompt'],
      ],
    ),
    line('Prompts by why their rewards vary or do not', [0, 26, 12, 8], [[of('prompts'), '{{run}} {{cause}}']], {
      defaults: { custom: { stacking: { mode: 'normal' }, fillOpacity: 60 } },
    }),
    line(
      'Prompts that the filter keeps; shares of the start',
      [12, 26, 12, 8],
      [
        [of('kept_prompts_ratio'), '{{run}} kept'],
        [of('mi_start_ratio'), '{{run}} I(X;Z)'],
        [of('entropy_start_ratio'), '{{run}} H(Z|X)'],
      ],
      { defaults: { min: 0, unit: 'percentunit' } },
    ),
    line(
      'Texts: template and novelty',
      [0, 34, 12, 8],
      [
        [of('template_ratio'), '{{run}} template'],
        [of('sibling_novelty_ratio'), '{{run}} novelty'],
      ],
      { defaults: { min: 0, max: 1, unit: 'percentunit' } },
    ),
    line('p-value of I(X;Z)', [12, 34, 12, 8], [[of('mi_p_value'), '{{run}} {{sample}}']], {
      defaults: { min: 0, max: 1 },
    }),
    panel(
      'table',
      'Verdicts',
      [0, 42, 24, 8],
      [
        [of('verdict_active'), '', { instant: true }],
        [of('verdicts_total'), '', { instant: true }],
        [named('build_info'), '', { instant: true }],
      ],
    ),
  ];
  return {
    title: 'collapsar',
    uid: 'collapsar',
    tags: ['collapsar', 'rl'],
    schemaVersion: 39,
    editable: true,
    refresh: '30s',
    time: { from: 'now-24h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' },
        {
          name: 'run',
          type: 'query',
          label: 'Run',
          datasource: SOURCE,
          query: { query: `label_values(${named('training_step')}, run)`, refId: 'run' },
          includeAll: true,
          multi: true,
          refresh: 2,
        },
      ],
    },
    panels,
  };
}

/** @param {{ STATE: Record<string, object> }} table */
export function alerts({ STATE }) {
  const named = nameIn(Object.values(STATE));
  const rule = (alert, expr, wait, severity, summary) => ({
    alert,
    expr,
    for: wait,
    labels: { severity },
    annotations: { summary },
  });
  return {
    groups: [
      {
        name: 'collapsar',
        rules: [
          rule(
            'CollapsarCriticalVerdict',
            `max by (run, kind) (${named('verdict_active')}{severity="critical"}) == 1`,
            '0m',
            'critical',
            '{{ $labels.run }}: {{ $labels.kind }}',
          ),
          rule(
            'CollapsarNoStep',
            `time() - ${named('last_step_timestamp_seconds')} > 3600`,
            '5m',
            'warning',
            '{{ $labels.run }}: no step for an hour',
          ),
        ],
      },
    ],
  };
}

/** A name of the table by its own part; one that is not there is a mistake here. */
function nameIn(rows) {
  const names = new Set(rows.map(({ name }) => name));
  return (part) => {
    const name = `collapsar_${part}`;
    if (!names.has(name)) throw new Error(`no metric ${name}`);
    return name;
  };
}

/** Contents by path in the repository. */
export function grafanaFiles(table) {
  return {
    'grafana/collapsar.json': `${JSON.stringify(dashboard(table), null, 2)}\n`,
    'grafana/alerts.yml': `# Rules for Prometheus: rule_files: [alerts.yml]\n${stringify(alerts(table))}`,
  };
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const table = await import(pathToFileURL(join(root, 'dist', 'sinks', 'prometheus', 'metric-table.js')).href);
  for (const [path, content] of Object.entries(grafanaFiles(table))) writeFileSync(join(root, path), content);
}
