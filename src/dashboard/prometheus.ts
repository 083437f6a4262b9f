import type { Attributes, Histogram, MetricOptions, UpDownCounter } from '@opentelemetry/api';
import type { Meters } from '../telemetry/metrics.ts';

/**
 * The instruments of `src/telemetry` as Prometheus text, without OpenTelemetry's packages: the same
 * names, labels and values as the Prometheus exporter of OpenTelemetry gives.
 */
export class PrometheusMeters implements Meters {
  readonly #metrics: { text(): string }[] = [];

  getMeter(scope: string): {
    createHistogram(name: string, options?: MetricOptions): Histogram;
    createUpDownCounter(name: string, options?: MetricOptions): UpDownCounter;
  } {
    const added = <T extends { text(): string }>(metric: T): T => {
      this.#metrics.push(metric);
      return metric;
    };
    return {
      createHistogram: (name, options = {}) => added(new TextHistogram(scope, name, options)),
      createUpDownCounter: (name, options = {}) => added(new TextGauge(scope, name, options)),
    };
  }

  text(): string {
    return this.#metrics.map((metric) => metric.text()).join('');
  }
}

/** A metric with one series for each set of attributes. */
abstract class TextMetric<S> {
  readonly name: string;
  readonly #scope: string;
  readonly #head: string;
  readonly #series = new Map<string, S>();

  constructor(scope: string, name: string, type: string, { description = '', unit }: MetricOptions) {
    this.name = name.replace(/[^a-z0-9_]/gi, '_');
    this.#scope = scope;
    const lines = [`# HELP ${this.name} ${escaped(description)}`, `# TYPE ${this.name} ${type}`];
    if (unit !== undefined) lines.splice(1, 0, `# UNIT ${this.name} ${unit}`);
    this.#head = lines.join('\n');
  }

  text(): string {
    if (this.#series.size === 0) return '';
    const lines = [...this.#series].flatMap(([labels, series]) => this.lines(labels, series));
    return `${this.#head}\n${lines.join('\n')}\n`;
  }

  protected abstract lines(labels: string, series: S): string[];

  protected seriesOf(attributes: Attributes, make: () => S): S {
    const labels = Object.entries({ ...attributes, 'otel.scope.name': this.#scope })
      .map(([key, value]) => `${key.replace(/[^a-z0-9_]/gi, '_')}="${quoted(String(value))}"`)
      .join(',');
    const known = this.#series.get(labels) ?? make();
    this.#series.set(labels, known);
    return known;
  }
}

class TextGauge extends TextMetric<{ value: number }> implements UpDownCounter {
  constructor(scope: string, name: string, options: MetricOptions) {
    super(scope, name, 'gauge', options);
  }

  add(value: number, attributes: Attributes = {}): void {
    this.seriesOf(attributes, () => ({ value: 0 })).value += value;
  }

  protected lines(labels: string, { value }: { value: number }): string[] {
    return [`${this.name}{${labels}} ${value}`];
  }
}

interface Buckets {
  count: number;
  sum: number;
  readonly counts: number[];
}

class TextHistogram extends TextMetric<Buckets> implements Histogram {
  readonly #bounds: readonly number[];

  constructor(scope: string, name: string, options: MetricOptions) {
    super(scope, name, 'histogram', options);
    this.#bounds = options.advice?.explicitBucketBoundaries ?? [];
  }

  record(value: number, attributes: Attributes = {}): void {
    const empty = (): number[] => new Array(this.#bounds.length + 1).fill(0);
    const series = this.seriesOf(attributes, () => ({ count: 0, sum: 0, counts: empty() }));
    const found = this.#bounds.findIndex((bound) => value <= bound);
    const bucket = found === -1 ? this.#bounds.length : found;
    series.counts[bucket] = (series.counts[bucket] ?? 0) + 1;
    series.count += 1;
    series.sum += value;
  }

  protected lines(labels: string, { count, sum, counts }: Buckets): string[] {
    let below = 0;
    const buckets = counts.map((inBucket, n) => {
      below += inBucket;
      return `${this.name}_bucket{${labels},le="${this.#bounds[n] ?? '+Inf'}"} ${below}`;
    });
    return [`${this.name}_count{${labels}} ${count}`, `${this.name}_sum{${labels}} ${sum}`, ...buckets];
  }
}

function escaped(text: string): string {
  return text.replace(/\\/g, '\\\\').replace(/\n/g, '\\n');
}

function quoted(text: string): string {
  return escaped(text).replace(/"/g, '\\"');
}
