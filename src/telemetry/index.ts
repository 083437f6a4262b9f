/** OpenTelemetry metrics and traces: `holdfast/otel`. */
export { type InstrumentOptions, instrument } from './instrument.ts';
