import type { Attributes, Histogram, Meter, UpDownCounter } from '@opentelemetry/api';

/** Bucket bounds in seconds: waits and renewals from 1 ms to 10 s, holds up to an hour. */
const WAIT_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const HOLD_BOUNDS = [...WAIT_BOUNDS, 30, 60, 300, 900, 3_600];

/** What the instruments need of a meter provider. */
export interface Meters {
  getMeter(name: string): Pick<Meter, 'createHistogram' | 'createUpDownCounter'>;
}

/** The instruments, by the names that the dashboards of users rely on. */
export class Instruments {
  readonly waitDuration: Histogram;
  readonly holdDuration: Histogram;
  readonly renewDuration: Histogram;
  readonly held: UpDownCounter;
  readonly waiting: UpDownCounter;

  constructor(provider: Meters) {
    const meter = provider.getMeter('holdfast');
    const histogram = (name: string, description: string, explicitBucketBoundaries: number[]): Histogram =>
      meter.createHistogram(name, { unit: 's', description, advice: { explicitBucketBoundaries } });
    this.waitDuration = histogram(
      'holdfast.wait.duration',
      'From the call of acquire until it has its answer',
      WAIT_BOUNDS,
    );
    this.holdDuration = histogram(
      'holdfast.hold.duration',
      'From the grant of a lock until it is released or lost',
      HOLD_BOUNDS,
    );
    this.renewDuration = histogram('holdfast.renew.duration', 'Renewals of holds', WAIT_BOUNDS);
    this.held = meter.createUpDownCounter('holdfast.held', { description: 'Locks held by this process' });
    this.waiting = meter.createUpDownCounter('holdfast.waiting', {
      description: 'Calls of this process that wait in the queue of a lock',
    });
  }
}

/** The attributes that the measurements of a lock have, made once for all locks of a group and kind. */
export class SeriesAttributes {
  readonly base: Attributes;
  readonly spanOptions: { readonly attributes: Attributes };
  readonly #byOutcome = new Map<string, Attributes>();

  constructor(group: string, kind: string, store: string) {
    this.base = { 'holdfast.group': group, 'holdfast.kind': kind, 'holdfast.store': store };
    this.spanOptions = { attributes: this.base };
  }

  with(outcome: string): Attributes {
    let attributes = this.#byOutcome.get(outcome);
    if (attributes === undefined) {
      attributes = { ...this.base, 'holdfast.outcome': outcome };
      this.#byOutcome.set(outcome, attributes);
    }
    return attributes;
  }
}

export const inSeconds = (ms: number): number => ms / 1_000;
