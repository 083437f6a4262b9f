import type { Core } from '../core.ts';
import type { EventDetail } from '../events.ts';
import { type AcquireTrace, onAcquireTrace } from '../hold/acquire-trace.ts';
import type { Groups } from './groups.ts';
import { Instruments, inSeconds, type Meters, SeriesAttributes } from './metrics.ts';
import type { ClaimSpans } from './spans.ts';

/** Starts the spans of an attempt; `null` where none are recorded. */
type StartSpans = (trace: AcquireTrace, series: SeriesAttributes) => ClaimSpans | null;

/** For so many names the series are kept at hand. */
const NAMES_MAX = 1_000;

/** A claim that is being acquired or held. */
interface Observed {
  readonly series: SeriesAttributes;
  readonly spans: ClaimSpans | null;
  isWaiting: boolean;
  isHeld: boolean;
}

/** Turns what happens to the claims of one Locks into measurements and, if asked to, spans. */
export class Recorder {
  readonly #instruments: Instruments;
  readonly #startSpans: StartSpans | null;
  readonly #groups: Groups;
  readonly #observed = new Map<string, Observed>();
  /** By group and kind: their number is bounded, because that of the groups is. */
  readonly #series = new Map<string, SeriesAttributes>();
  /** The same, of the locks that were used last: finding the group of a name takes longer. */
  readonly #byName = {
    exclusive: new Map<string, SeriesAttributes>(),
    shared: new Map<string, SeriesAttributes>(),
    permits: new Map<string, SeriesAttributes>(),
  };

  constructor(meters: Meters, groups: Groups, startSpans: StartSpans | null = null) {
    this.#instruments = new Instruments(meters);
    this.#startSpans = startSpans;
    this.#groups = groups;
  }

  /** Records what these locks do from now on. The result ends that. */
  listen(core: Core): () => void {
    const { events } = core;
    const ends = [
      onAcquireTrace(core, {
        start: (attempt) => this.onStart(attempt),
        end: (attempt) => this.onEnd(attempt),
      }),
      events.observe('waiting', ({ id }) => this.onWaiting(id)),
      events.observe('renewed', ({ id }, detail) => this.onRenewed(id, detail)),
      events.observe('renewFailed', ({ id }, detail) => this.onRenewFailed(id, detail)),
      events.observe('released', ({ id }, detail) => this.onReleased(id, detail)),
      events.observe('releaseFailed', ({ id }, detail) => this.onReleaseFailed(id, detail)),
      events.observe('lost', ({ id }, detail) => this.onLost(id, detail)),
    ];
    return () => {
      for (const end of ends.splice(0)) end();
      this.close();
    };
  }

  onStart(trace: AcquireTrace): void {
    const series = this.#seriesOf(trace);
    const spans = this.#startSpans?.(trace, series) ?? null;
    this.#observed.set(trace.id, { series, spans, isWaiting: false, isHeld: false });
  }

  #seriesOf({ name, mode: { kind }, store }: AcquireTrace): SeriesAttributes {
    const known = this.#byName[kind].get(name);
    if (known !== undefined) return known;
    const group = this.#groups.of(name);
    const key = `${kind} ${group}`;
    const series = this.#series.get(key) ?? new SeriesAttributes(group, kind, store);
    this.#series.set(key, series);
    if (this.#byName[kind].size >= NAMES_MAX) this.#byName[kind].clear();
    this.#byName[kind].set(name, series);
    return series;
  }

  onWaiting(id: string): void {
    const claim = this.#observed.get(id);
    if (claim === undefined) return;
    claim.isWaiting = true;
    this.#instruments.waiting.add(1, claim.series.base);
    claim.spans?.onWaiting();
  }

  onEnd(trace: AcquireTrace): void {
    const claim = this.#observed.get(trace.id);
    if (claim === undefined) return;
    const { series, spans } = claim;
    const outcome = trace.outcome ?? 'failed';
    this.#instruments.waitDuration.record(inSeconds(trace.waitedMs), series.with(outcome));
    this.#endWait(claim);
    if (trace.fence === null) spans?.onRefused(outcome, trace.error);
    else spans?.onAcquired(trace.fence, trace.waitedMs);
    // A permit of a rate limit is not held: it runs out by itself.
    if (trace.fence !== null && trace.use !== 'rateLimit') {
      claim.isHeld = true;
      this.#instruments.held.add(1, series.base);
    } else {
      this.#observed.delete(trace.id);
      spans?.onReleased();
    }
  }

  onRenewed(id: string, { tookMs }: EventDetail<'renewed'>): void {
    this.#recordRenewal(id, 'renewed', tookMs);
  }

  onRenewFailed(id: string, { tookMs, error, remainingMs }: EventDetail<'renewFailed'>): void {
    this.#recordRenewal(id, 'failed', tookMs);
    this.#observed.get(id)?.spans?.onRenewFailed(error, remainingMs);
  }

  onReleased(id: string, { heldForMs }: EventDetail<'released'>): void {
    this.#endHold(id, 'released', heldForMs)?.spans?.onReleased();
  }

  /** The hold is over for its user, although the claim may stay in the store until its TTL ends. */
  onReleaseFailed(id: string, { error, heldForMs }: EventDetail<'releaseFailed'>): void {
    this.#endHold(id, 'released', heldForMs)?.spans?.onReleaseFailed(error);
  }

  onLost(id: string, { how, error, heldForMs }: EventDetail<'lost'>): void {
    this.#endHold(id, how, heldForMs)?.spans?.onLost(how, error);
  }

  /** Ends every span, and counts down what no event will count down any more. */
  close(): void {
    for (const claim of this.#observed.values()) {
      this.#endWait(claim);
      if (claim.isHeld) this.#instruments.held.add(-1, claim.series.base);
      claim.spans?.abandon();
    }
    this.#observed.clear();
  }

  #endWait(claim: Observed): void {
    if (claim.isWaiting) this.#instruments.waiting.add(-1, claim.series.base);
    claim.isWaiting = false;
  }

  #endHold(id: string, outcome: string, heldForMs: number): Observed | undefined {
    const claim = this.#observed.get(id);
    if (claim === undefined) return undefined;
    this.#observed.delete(id);
    this.#instruments.held.add(-1, claim.series.base);
    this.#instruments.holdDuration.record(inSeconds(heldForMs), claim.series.with(outcome));
    return claim;
  }

  #recordRenewal(id: string, outcome: string, tookMs: number): void {
    const claim = this.#observed.get(id);
    if (claim === undefined) return;
    this.#instruments.renewDuration.record(inSeconds(tookMs), claim.series.with(outcome));
  }
}
