import type { Mode } from '../store/store.ts';
import { UsageError } from './exit-code.ts';

const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** `500ms`, `30s`, `1.5m`, `2h`, `7d`. The unit is required, because `--ttl 30` would be ambiguous. */
export function parseDuration(option: string, text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text.trim());
  const ms = match === null ? Number.NaN : Number(match[1]) * (UNITS_MS[match[2] ?? ''] ?? Number.NaN);
  // 2.3h is 8279999.999999999 ms in floating point.
  const wholeMs = Math.round(ms);
  if (!(Math.abs(ms - wholeMs) < 1e-6))
    throw new UsageError(`${option} must be a duration such as 500ms, 30s, 5m, 2h or 7d; got "${text}"`);
  return wholeMs;
}

/** Like a duration, and also `forever`. */
export function parseWait(option: string, text: string): number {
  return text === 'forever' ? Number.POSITIVE_INFINITY : parseDuration(option, text);
}

/** `2/10`: two of ten permits. */
export function parsePermits(text: string): Mode {
  const match = /^(\d+)\/(\d+)$/.exec(text.trim());
  const [count, of] = [Number(match?.[1]), Number(match?.[2])];
  if (match === null || count < 1 || of < count)
    throw new UsageError(`--permits must be like 2/10, two of ten; got "${text}"`);
  return { kind: 'permits', count, of };
}
