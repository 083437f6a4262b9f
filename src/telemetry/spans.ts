import {
  type Attributes,
  type Context,
  context,
  INVALID_TRACEID,
  type Span,
  SpanStatusCode,
  type Tracer,
} from '@opentelemetry/api';
import type { AcquireTrace } from '../hold/acquire-trace.ts';
import { errorText } from '../util/error-text.ts';
import { inSeconds, type SeriesAttributes } from './metrics.ts';

const NAME = 'holdfast.name';

/**
 * The spans of one attempt and of the hold that comes of it. Both are children of the span in which
 * the caller asked for the lock.
 */
export class ClaimSpans {
  readonly #tracer: Tracer;
  readonly #attributes: Attributes;
  readonly #callerContext: Context;
  readonly #acquire: Span;
  #hold: Span | null = null;

  /** `null` where no SDK is installed: its absence shows in a span without an id. */
  static start(tracer: Tracer, { name }: AcquireTrace, series: SeriesAttributes): ClaimSpans | null {
    const callerContext = context.active();
    const acquire = tracer.startSpan('holdfast.acquire', series.spanOptions, callerContext);
    if (acquire.spanContext().traceId === INVALID_TRACEID) return null;
    acquire.setAttribute(NAME, name);
    return new ClaimSpans(tracer, { ...series.base, [NAME]: name }, callerContext, acquire);
  }

  private constructor(tracer: Tracer, attributes: Attributes, callerContext: Context, acquire: Span) {
    this.#tracer = tracer;
    this.#attributes = attributes;
    this.#callerContext = callerContext;
    this.#acquire = acquire;
  }

  /** The claim was refused at first, and waits. */
  onWaiting(): void {
    this.#acquire.addEvent('holdfast.waiting');
  }

  onAcquired(fence: bigint, waitedMs: number): void {
    const fenceText = fence.toString();
    this.#acquire.setAttributes({ 'holdfast.fence': fenceText, 'holdfast.outcome': 'acquired' });
    this.#acquire.end();
    const attributes = { ...this.#attributes, 'holdfast.fence': fenceText };
    this.#hold = this.#tracer.startSpan('holdfast.hold', { attributes }, this.#callerContext);
    this.#hold.addEvent('holdfast.waited', { 'holdfast.wait.duration': inSeconds(waitedMs) });
  }

  onRefused(outcome: string, error: unknown): void {
    this.#acquire.setAttribute('holdfast.outcome', outcome);
    // `held` has an error when the queue is full, or the lock is of another kind.
    if (outcome === 'failed' || (outcome === 'held' && error !== undefined))
      this.#acquire.setStatus({ code: SpanStatusCode.ERROR, message: errorText(error) });
    this.#acquire.end();
  }

  onRenewFailed(error: unknown, remainingMs: number): void {
    this.#hold?.addEvent('holdfast.renew_failed', {
      'holdfast.error': errorText(error),
      'holdfast.remaining': inSeconds(remainingMs),
    });
  }

  onReleased(): void {
    this.#endHold('released');
  }

  onReleaseFailed(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    this.#hold?.setStatus({ code: SpanStatusCode.ERROR, message });
    this.#endHold('released');
  }

  onLost(how: string, error: Error): void {
    this.#hold?.addEvent('holdfast.lost', { 'holdfast.outcome': how });
    this.#hold?.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
    this.#endHold(how);
  }

  /** Telemetry ends before the hold does. */
  abandon(): void {
    (this.#hold ?? this.#acquire).end();
    this.#hold = null;
  }

  #endHold(outcome: string): void {
    this.#hold?.setAttribute('holdfast.outcome', outcome);
    this.#hold?.end();
    this.#hold = null;
  }
}
