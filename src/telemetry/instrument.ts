import { type MeterProvider, metrics, type TracerProvider, trace } from '@opentelemetry/api';
import { checkKeys, checkType } from '../checks.ts';
import { coreOf, type Locks } from '../locks.ts';
import { Groups } from './groups.ts';
import { Recorder } from './recorder.ts';
import { ClaimSpans } from './spans.ts';

/** Where `instrument` records, and how it groups locks. */
export interface InstrumentOptions {
  /** The global one unless set. */
  readonly meterProvider?: MeterProvider | undefined;
  /** The global one unless set. */
  readonly tracerProvider?: TracerProvider | undefined;
  /**
   * The value of the attribute `holdfast.group` for a lock's name. Unless set: the name up to its
   * first colon. Beyond 100 groups of one meter provider it is `other`.
   */
  readonly group?: ((name: string) => string) | undefined;
}

/**
 * Records metrics and traces of these locks with OpenTelemetry. Durations are in seconds. The
 * result ends that. Throws `InvalidArgumentError` for an option that is not known.
 */
export function instrument(locks: Locks, options: InstrumentOptions = {}): () => void {
  checkKeys(options, ['meterProvider', 'tracerProvider', 'group']);
  if (options.group !== undefined) checkType('group', options.group, 'function');
  const core = coreOf(locks);
  const tracer = (options.tracerProvider ?? trace.getTracerProvider()).getTracer('holdfast');
  const meterProvider = options.meterProvider ?? metrics.getMeterProvider();
  const recorder = new Recorder(meterProvider, new Groups(meterProvider, options.group), (attempt, series) =>
    ClaimSpans.start(tracer, attempt, series),
  );
  return recorder.listen(core);
}
