import { type DiagnoseContext, fail, ok, type Verdict, warn } from './finding.ts';

/** Log lines of two hosts can be put in order while their clocks differ by less. */
const WARN_MS = 1_000;
/** A schedule relies on clocks that differ by less (`docs/schedules.md`). */
const FAIL_MS = 300_000;

const MEANS = 'Leases are durations, so a constant difference does not break exclusion.';
const ADVICE = 'Let a time service (chrony, systemd-timesyncd, ntpd) set the clocks of both hosts.';

/**
 * Compares the clock of this host with the clock of a server. `readServerMs` resolves to
 * milliseconds since 1970 by the clock of the server, with one round trip.
 */
export async function checkClock(
  { clock }: Pick<DiagnoseContext, 'clock'>,
  readServerMs: () => Promise<number>,
): Promise<Verdict> {
  const beforeMs = clock.wallMs();
  const serverMs = await readServerMs();
  if (!Number.isFinite(serverMs)) throw new Error('the server did not report its time');
  return judgeClock(serverMs, beforeMs, clock.wallMs());
}

/** `serverMs` was read at some moment from `beforeMs` to `afterMs` by the clock of this host. */
export function judgeClock(serverMs: number, beforeMs: number, afterMs: number): Verdict {
  const aheadMs = Math.max(serverMs - afterMs, 0);
  const behindMs = Math.max(beforeMs - serverMs, 0);
  const differenceMs = Math.round(Math.max(aheadMs, behindMs));
  if (differenceMs < WARN_MS)
    return ok(`the clocks of this host and of the server differ by less than ${WARN_MS} ms`, MEANS);
  const way = aheadMs > 0 ? 'ahead of' : 'behind';
  const found = `the clock of the server is at least ${differenceMs} ms ${way} the clock of this host`;
  if (differenceMs < FAIL_MS)
    return warn(found, `${MEANS} A clock that is being corrected ends leases early or late.`, ADVICE);
  return fail(found, `${MEANS} A slot of a schedule may run twice, or not at all.`, ADVICE);
}
