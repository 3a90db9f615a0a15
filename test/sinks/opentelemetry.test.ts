// Instruments of the real SDK of OpenTelemetry, and what it would export.
import { DataPointType } from '@opentelemetry/sdk-metrics';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { type OpenTelemetryMeter, openTelemetrySink } from '../../src/exports/sinks.js';
import { Exposition } from '../../src/sinks/prometheus/exposition.js';
import { METRIC_TABLE } from '../../src/sinks/prometheus/metric-table.js';
import type { StepReport } from '../../src/step/step-report.js';
import { openTelemetry } from './open-telemetry.js';
import { collapseReports, giveAll, MI, reportWith } from './sink-reports.js';

vi.setConfig({ hookTimeout: 120_000 });

let reports: StepReport[];
beforeAll(async () => {
  reports = await collapseReports();
});

describe('openTelemetrySink', () => {
  it('exports through the SDK every metric of the table, with the values that Prometheus gets', async () => {
    const { sink, exported, provider } = openTelemetry();
    const exposition = new Exposition();
    const given = [
      ...reports,
      reportWith({ run: 'texts "x"', step: 1, metrics: { 'text/template_share': 0.1, 'text/sibling_novelty': 0.5 } }),
    ];
    vi.useFakeTimers({ toFake: ['Date'], now: 1_700_000_000_000 });
    await giveAll(sink, given);
    for (const report of given) exposition.take(report);
    vi.useRealTimers();
    const metrics = await exported();
    const lines = metrics.flatMap(({ descriptor, dataPoints }) =>
      dataPoints.map(({ attributes, value }) => {
        const labels = Object.entries(attributes).map(([name, of]) => `${name}="${String(of).replaceAll('"', '\\"')}"`);
        return `${descriptor.name.replace('.', '_')}{${labels.join(',')}} ${value}`;
      }),
    );
    const scraped = exposition
      .text()
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#') && !line.endsWith(' NaN'))
      .map((line) => line.replace('_total{', '{'));
    expect(lines.sort()).toEqual(scraped.sort());
    expect(metrics.map(({ descriptor }) => descriptor.name).sort()).toEqual(
      METRIC_TABLE.map(({ name }) => name.replace('_', '.').replace(/_total$/, '')).sort(),
    );
    for (const { descriptor, dataPointType } of metrics) {
      const isCounter = descriptor.name === 'collapsar.verdicts';
      expect(dataPointType).toBe(isCounter ? DataPointType.SUM : DataPointType.GAUGE);
      expect(descriptor.description).not.toBe('');
    }
    await provider.shutdown();
  });

  it('goes on exporting what the last step said, and leaves out what is not a number', async () => {
    const { sink, exported, provider } = openTelemetry();
    await giveAll(sink, [reportWith({ run: 'r', step: 3, metrics: { [MI]: Number.NaN } })]);
    for (let time = 0; time < 2; time++) {
      const metrics = await exported();
      const valuesOf = (name: string) =>
        metrics.find(({ descriptor }) => descriptor.name === name)?.dataPoints.map(({ value }) => value) ?? [];
      expect(valuesOf('collapsar.training_step')).toEqual([3]);
      expect(valuesOf('collapsar.mi_nats')).toEqual([]);
    }
    await provider.shutdown();
  });

  it('refuses what is no meter', () => {
    expect(() => openTelemetrySink({} as OpenTelemetryMeter)).toThrow(/expected a Meter/);
    expect(() => openTelemetrySink(undefined as unknown as OpenTelemetryMeter)).toThrow(/expected a Meter/);
  });
});
