// What `collapsar report` writes, read back from the file.
import { copyFileSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { type ColumnSource, parquetWriteBuffer } from 'hyparquet-writer';
import { beforeAll, describe, expect, it } from 'vitest';
import { MOST_BYTES, pageHtml } from '../../src/report/page-html.js';
import { decodeReport } from '../../src/report/payload/payload.js';
import { byGravity, type Matrix, type Report, type StepTexts } from '../../src/report/report.js';
import { allFigures, type StepRecord } from '../../src/step/step-record.js';
import { collapsar } from '../cli/cli-streams.js';
import { buildIfStale } from '../support/built-command.js';
import { temporaryDirectory } from '../support/temporary-directory.js';
import { headOf, reportOf, runOf, textOf } from './reports.js';

const folder = temporaryDirectory();
const results = join(folder, 'results');
const runs = ['examples/data', 'examples/rollouts'];

function reportIn(path: string): Report {
  const [, payload = ''] = /<script type="text\/plain" id="payload">([^<]*)</.exec(readFileSync(path, 'utf8')) ?? [];
  return decodeReport(gunzipSync(Buffer.from(payload, 'base64')));
}

beforeAll(async () => {
  buildIfStale();
  await collapsar(['analyze', ...runs, '--out', results, '--quiet', '--jsonl']);
}, 120_000);

describe('collapsar report', () => {
  it('writes the same columns from logs as from results, with the figures of the records', async () => {
    const [ofLogs, ofResults] = [join(folder, 'logs.html'), join(folder, 'results.html')];
    const { status, out } = await collapsar(['report', ...runs, '-o', ofLogs, '--quiet']);
    expect(status).toBe(0);
    expect(out).toMatch(/logs\.html: 4 runs, 213 steps, [\d.]+ [kM]B\n$/);
    expect((await collapsar(['report', results, '-o', ofResults])).status).toBe(0);
    const [a, b] = [reportIn(ofLogs), reportIn(ofResults)];
    expect(a.runs).toEqual(b.runs);
    expect(a.head.provenance.command).toBe('collapsar report examples/data examples/rollouts');

    const records = readFileSync(join(results, 'metrics.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as StepRecord);
    for (const { head, steps, figures } of a.runs) {
      const own = records.filter(({ run }) => run === head.name);
      expect([...steps]).toEqual(own.map(({ step }) => step));
      const prefix = head.instrument === 'texts' ? 'text/' : 'collapse_first_turn_sample/';
      const mi = head.instrument === 'texts' ? 'mi_bound' : 'mi_seq_estimate';
      for (const [name, key] of [
        ['mi', prefix + mi],
        ['mi_low', `${prefix}${mi}_${head.instrument === 'texts' ? '' : 'batch_'}low`],
        ['retrieval', `${prefix}retrieval_accuracy`],
        ['chance', `${prefix}retrieval_chance_level`],
        ['reward', 'rollout/in_group_reward_mean'],
      ] as const) {
        expect([...(figures[name] ?? [])], `${head.name} ${name}`).toEqual(
          own.map((record) => Math.fround(allFigures(record)[key] as number)),
        );
      }
    }
  });

  it('has the gravest run first, its state, since when, what it started from and what to do', async () => {
    const path = join(folder, 'words.html');
    await collapsar(['report', results, '-o', path]);
    const sorted = [...reportIn(path).runs].sort(byGravity).map(({ head }) => head);
    expect(sorted.map(({ name }) => name)).toEqual(['trl-falling', 'collapse', 'filtered', 'healthy']);
    const [, collapse, , healthy] = sorted;
    expect(collapse?.status).toMatchObject({ grade: 'critical', state: 'template collapse', since: 136, said: 140 });
    expect(collapse?.status.advice).toContain('go back to a checkpoint');
    expect(collapse?.shares.mi).toBeCloseTo(0.143, 3);
    expect(collapse?.start?.mi).toBeCloseTo(1.4075, 4);
    expect(collapse?.verdicts.map(({ kind, since, holds }) => [kind, since, holds])).toEqual([
      ['prompts_too_easy', 68, false],
      ['entropy_gaming', 124, false],
      ['template_collapse', 136, true],
      ['dependence_lower', 128, true],
      ['entropy_gaming', 192, true],
      ['prompts_too_easy', 200, true],
    ]);
    expect(healthy?.status).toMatchObject({ grade: 'fine', state: 'diverse', since: 20 });
    expect(healthy?.correlations?.against).toBe('success');
    expect(sorted[0]?.template[0]?.text).toBe('so best must go');
  });

  it('loads nothing: no address but data, and a policy that allows no other script', async () => {
    const path = join(folder, 'alone.html');
    await collapsar(['report', results, '-o', path]);
    const html = readFileSync(path, 'utf8');
    expect(html).not.toMatch(/<(script|link|img|iframe)[^>]+(src|href)=/);
    expect(html).toContain("default-src 'none'");
    expect(html).toContain("connect-src 'none'");
    expect(html.length).toBeLessThan(2e6);
  });

  it('writes figures with the same bytes each time', async () => {
    const figures = join(folder, 'figures');
    const { status, out } = await collapsar(['report', results, '--figures', figures]);
    expect(status).toBe(0);
    expect(out).toContain('4 runs, 213 steps');
    const before = readdirSync(figures).map((name) => readFileSync(join(figures, name), 'utf8'));
    await collapsar(['report', results, '--figures', figures]);
    expect(readdirSync(figures).map((name) => readFileSync(join(figures, name), 'utf8'))).toEqual(before);
    expect(readdirSync(figures)).toContain('01-collapse-story.svg');
    for (const svg of before) expect(svg).toMatch(/^<svg [^>]*width="\d+"/);
  });

  it('draws the figures of the pages, byte for byte', async () => {
    const figures = join(folder, 'pages');
    await collapsar(['report', 'examples/data', '--figures', figures, '--quiet']);
    for (const [drawn, page] of [
      ['01-collapse-story', 'collapse-story'],
      ['01-collapse-heat-maps', 'collapse-heat-maps'],
      ['plane', 'plane'],
    ]) {
      const its = readFileSync(join('docs/guide/figures', `${page}.svg`), 'utf8');
      expect(readFileSync(join(figures, `${drawn}.svg`), 'utf8'), page).toBe(its);
    }
  });

  it('says what is wrong with results and other paths together, and with broken results', async () => {
    const mixed = await collapsar(['report', results, 'examples/data']);
    expect(mixed.status).toBe(2);
    expect(mixed.err).toContain('has the results of an analysis: report it alone');
    const broken = join(folder, 'broken');
    mkdirSync(broken);
    writeFileSync(join(broken, 'summary.json'), '{}');
    writeFileSync(join(broken, 'metrics.jsonl'), '{"file":"a","step":1,"run":"r"}\nnonsense\n');
    const bad = await collapsar(['report', broken, '-o', join(folder, 'never.html')]);
    expect(bad.status).toBe(1);
    expect(bad.err).toContain('has no record at byte 32');
    expect(readdirSync(folder)).not.toContain('never.html');
  });

  it('takes the tables of prompts and matrices beside the records, cut to what a screen has room for', async () => {
    const folderOf = join(folder, 'tables');
    cpSync(results, folderOf, { recursive: true });
    const size = 70;
    const ids = Array.from({ length: size }, (_, at) => `p${at}`);
    const posterior = Uint8Array.from({ length: size * size }, (_, at) => (at % (size + 1) === 0 ? at % 251 : 3));
    const matrix = [
      { name: 'run', type: 'STRING', data: ['collapse', 'healthy'] },
      { name: 'step', type: 'INT64', data: [1n, 4n] },
      { name: 'prompts', type: 'INT32', data: [size, 1] },
      { name: 'ids', type: 'STRING', data: [JSON.stringify(ids), '["<b>"]'] },
      { name: 'source', type: 'STRING', data: ['scores', 'texts'] },
      { name: 'posterior', type: 'BYTE_ARRAY', data: [posterior, Uint8Array.of(255)] },
      { name: 'nats', type: 'BYTE_ARRAY', data: [new Uint8Array(2 * size * size), Uint8Array.of(0x00, 0x3c)] },
    ] as const;
    const prompts = [
      { name: 'run', type: 'STRING', data: ['collapse', 'collapse'] },
      { name: 'step', type: 'INT64', data: [1n, 4n] },
      { name: 'prompt', type: 'STRING', data: ['a', '<script>'] },
      { name: 'rows', type: 'INT32', data: [8, 8] },
      ...['mi', 'mi_low', 'mi_high', 'reward_mean', 'reward_std', 'retrieval'].map((name) => {
        return { name, type: 'DOUBLE', data: [0.5, null], nullable: true } as const;
      }),
      { name: 'kept', type: 'BOOLEAN', data: [true, null], nullable: true },
      { name: 'drop_reason', type: 'STRING', data: [null, 'zero_score'], nullable: true },
      { name: 'cause', type: 'STRING', data: ['too_easy', null], nullable: true },
    ] as const;
    for (const [name, columnData] of [
      ['matrices.parquet', matrix],
      ['prompts.parquet', prompts],
    ] as const) {
      const bytes = parquetWriteBuffer({ columnData: columnData as unknown as ColumnSource[] });
      writeFileSync(join(folderOf, name), new Uint8Array(bytes));
    }
    const path = join(folder, 'tables.html');
    expect((await collapsar(['report', folderOf, '-o', path])).status).toBe(0);
    const { runs: found } = reportIn(path);
    const [collapse, healthy] = ['collapse', 'healthy'].map((name) => found.find(({ head }) => head.name === name));
    expect(collapse?.matrices[0]?.ids).toHaveLength(64);
    expect(collapse?.matrices[0]?.prompts).toBe(size);
    expect(healthy?.matrices).toEqual([
      {
        ...{ step: 4, source: 'texts', ids: ['<b>'], prompts: 1 },
        posterior: Uint8Array.of(255),
        nats: Uint16Array.of(0x3c00),
      },
    ]);
    expect(collapse?.prompts).toMatchObject({
      ...{ ids: ['a', '<script>'], reasons: ['', 'zero_score'], causes: ['too_easy', ''] },
      step: Float64Array.of(1, 4),
      mi: Float32Array.of(0.5, Number.NaN),
      kept: Uint8Array.of(1, 2),
    });
    writeFileSync(join(folderOf, 'prompts.parquet'), 'no Parquet');
    const bad = await collapsar(['report', folderOf, '-o', path]);
    expect(bad.err).toContain('prompts.parquet: is no Parquet that analyze --out writes');
    expect(bad.status).toBe(1);
  });

  it('shows prompts of 200 steps of a run that has more, both ends among them, and says so', async () => {
    const long = join(folder, 'long');
    mkdirSync(long);
    const steps = Array.from({ length: 500 }, (_, at) => at + 1);
    writeFileSync(join(long, 'summary.json'), '{"runs":[]}');
    writeFileSync(
      join(long, 'metrics.jsonl'),
      steps.map((step) => `${JSON.stringify({ file: 'r/a', step, run: 'r', 'text/mi_bound': 1 })}\n`).join(''),
    );
    const nothing = steps.map(() => null);
    const columnData = [
      { name: 'run', type: 'STRING', data: steps.map(() => 'r') },
      { name: 'step', type: 'INT64', data: steps.map(BigInt) },
      { name: 'prompt', type: 'STRING', data: steps.map(() => 'p') },
      { name: 'rows', type: 'INT32', data: steps },
      ...['mi', 'mi_low', 'mi_high', 'reward_mean', 'reward_std', 'retrieval'].map((name) => {
        return { name, type: 'DOUBLE', data: nothing, nullable: true } as const;
      }),
      { name: 'kept', type: 'BOOLEAN', data: nothing, nullable: true },
      ...['drop_reason', 'cause'].map((name) => ({ name, type: 'STRING', data: nothing, nullable: true }) as const),
    ] as unknown as ColumnSource[];
    writeFileSync(join(long, 'prompts.parquet'), new Uint8Array(parquetWriteBuffer({ columnData })));
    const path = join(folder, 'long.html');
    await collapsar(['report', long, '-o', path]);
    const { head, runs: found } = reportIn(path);
    const shown = [...(found[0]?.prompts?.step ?? [])];
    expect(shown).toHaveLength(200);
    expect([shown[0], shown.at(-1)]).toEqual([1, 500]);
    expect(head.thinned).toEqual(['r: prompts are shown of 200 of 500 steps.']);
    expect(found[0]?.steps).toHaveLength(500);
  });

  it('reports what could be read, and says with status 1 what could not', async () => {
    const logs = join(folder, 'damaged');
    mkdirSync(logs);
    for (const name of readdirSync('examples/data/collapse').slice(0, 3))
      copyFileSync(join('examples/data/collapse', name), join(logs, name));
    writeFileSync(join(logs, 'step_00099.safetensors'), 'no tensors');
    const path = join(folder, 'damaged.html');
    const { status, err } = await collapsar(['report', logs, '-o', path, '--quiet']);
    expect(status).toBe(1);
    expect(err).toContain('step_00099.safetensors');
    expect([...(reportIn(path).runs[0]?.steps ?? [])]).toEqual([1, 4, 8]);
    expect(reportIn(path).runs[0]?.head.status).toMatchObject({ grade: 'unknown' });
  });

  it('reads of more than 60 steps with rollouts some, the ends and those about verdicts among them', async () => {
    const logs = join(folder, 'many');
    mkdirSync(logs);
    const line = (step: number, row: number): string => {
      const group = row % 4;
      const output = `of ${step > 60 ? 'all' : `g${group} h${group}`} with ${row}, always the same words`;
      return JSON.stringify({ step, group, prompt: `about g${group}`, output, reward: row % 2 });
    };
    for (let step = 1; step <= 90; step++) {
      const lines = Array.from({ length: 16 }, (_, row) => line(step, row));
      writeFileSync(join(logs, `${step}.jsonl`), `${lines.join('\n')}\n`);
    }
    const results = join(folder, 'many-results');
    const options = ['--permutations', '19', '--quiet', '--jsonl'];
    expect((await collapsar(['analyze', logs, '--out', results, ...options])).err).toBe('');
    const path = join(folder, 'many.html');
    await collapsar(['report', results, '-o', path]);
    const { head, runs } = reportIn(path);
    const shown = runs[0]?.texts.map(({ step }) => step) ?? [];
    expect(shown).toHaveLength(60);
    const said = runs[0]?.head.verdicts.filter(({ severity }) => severity !== 'info').map(({ since }) => since) ?? [];
    expect(said.length).toBeGreaterThan(0);
    expect(shown).toEqual(expect.arrayContaining([1, 90, ...said]));
    expect(head.thinned).toEqual(['many: rollouts are kept of 60 of 90 steps.']);
    expect(runs[0]?.texts.every(({ rows, rollouts }) => rows === 16 && rollouts.length === 16)).toBe(true);
  });
});

describe('the file of a report', () => {
  it('keeps to its limit with 200 heat maps of 64 of 512 prompts that nothing compresses, and says what it left out', async () => {
    let state = 1;
    const noise = (): number => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return state >>> 16;
    };
    const steps = Array.from({ length: 200 }, (_, at) => at + 1);
    const ids = Array.from({ length: 64 }, (_, at) => `prompt ${at}`);
    const run = {
      ...runOf(steps, { mi: steps }, headOf('a')),
      matrices: steps.map((step): Matrix => {
        const posterior = Uint8Array.from({ length: 64 * 64 }, noise);
        return { step, source: 'scores', ids, prompts: 512, posterior, nats: Uint16Array.from(posterior, noise) };
      }),
    };
    const html = await pageHtml(reportOf(run, { ...run, head: { ...run.head, name: 'b' } }));
    expect(html.length).toBeLessThan(MOST_BYTES);
    const [, payload = ''] = /id="payload">([^<]*)</.exec(html) ?? [];
    const { head, runs: kept } = decodeReport(gunzipSync(Buffer.from(payload, 'base64')));
    expect(kept[0]?.matrices.length).toBeGreaterThan(50);
    expect(head.thinned[0]).toBe(`a: heat maps are kept of ${kept[0]?.matrices.length} of 200 steps.`);
  });

  it('keeps to its limit with rollouts of the longest texts, and says of how many steps they are', async () => {
    let state = 7;
    const letters = (count: number): string => {
      const codes = Array.from({ length: count }, () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return 97 + (state >>> 28);
      });
      return String.fromCharCode(...codes);
    };
    const steps = Array.from({ length: 60 }, (_, at) => at + 1);
    const words = Array.from({ length: 1000 }, (_, at) => [4 * at, 4 * at + 3, (at * 7919) % 0x4400] as const);
    const texts = steps.map((step): StepTexts => {
      const rollout = (_: unknown, row: number) => textOf(letters(4096), words, { row, prompt: letters(1024) });
      return { step, rows: 64, rollouts: Array.from({ length: 16 }, rollout) };
    });
    const run = { ...runOf(steps, { mi: steps }, headOf('a')), texts };
    const html = await pageHtml(reportOf(run, { ...run, head: { ...run.head, name: 'b' } }));
    expect(html.length).toBeLessThan(MOST_BYTES);
    const [, payload = ''] = /id="payload">([^<]*)</.exec(html) ?? [];
    const { head, runs: kept } = decodeReport(gunzipSync(Buffer.from(payload, 'base64')));
    const count = kept[0]?.texts.length ?? 0;
    expect(count).toBeGreaterThanOrEqual(20);
    expect(count).toBeLessThan(60);
    expect(head.thinned).toEqual(['a', 'b'].map((name) => `${name}: rollouts are kept of ${count} of 60 steps.`));
    expect(kept[0]?.texts[0]).toEqual(texts[0]);
  });
});
