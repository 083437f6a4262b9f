import { once } from 'node:events';
import { connect } from 'node:net';
import type { Clock } from '../../clock.ts';
import { judgeClock } from '../../store/clock-check.ts';
import { type DiagnoseContext, ok, type Verdict, warn } from '../../store/finding.ts';
import type { Member } from './client.ts';

/** How long a member may take to answer over HTTP. */
const ANSWER_MS = 1_000;
/** The header `date` has whole seconds. */
const DATE_STEP_MS = 1_000;

/** What one member reports about itself. */
export interface MemberReport {
  readonly label: string;
  /** It has answered a call of the client, or at one of its own addresses. */
  readonly isUp: boolean;
  /** In bytes; `null`: not visible. */
  readonly quota: number | null;
  /** The comparison of its clock with ours; `null`: its time is not visible. */
  readonly clock: Verdict | null;
}

/**
 * Asks every member at the addresses that it has told the cluster. Only members without TLS tell
 * their quota and their time; of the others it is seen whether they take connections. `answered`:
 * the ids of the members that have answered the client, whose addresses may differ.
 */
export async function askMembers(
  members: readonly Member[],
  answered: ReadonlySet<string>,
  { clock, signal }: DiagnoseContext,
): Promise<readonly MemberReport[]> {
  const late = new AbortController();
  const timer = clock.startTimer(ANSWER_MS, () => late.abort());
  const limit = AbortSignal.any([signal, late.signal]);
  try {
    return await Promise.all(
      members.map(async ({ ID, name, clientURLs }) => {
        const replies = await Promise.all(clientURLs.map((url) => askAt(new URL(url), clock, limit)));
        const known = replies.flatMap((reply) => reply ?? []);
        return {
          label: name === '' ? clientURLs.join(' ') : name,
          isUp: answered.has(ID) || known.length > 0,
          quota: known.find(({ quota }) => quota !== null)?.quota ?? null,
          clock: known.find((reply) => reply.clock !== null)?.clock ?? null,
        };
      }),
    );
  } finally {
    timer.cancel();
  }
}

/** `null`: no answer at this address. */
async function askAt(
  url: URL,
  clock: Clock,
  signal: AbortSignal,
): Promise<Pick<MemberReport, 'quota' | 'clock'> | null> {
  try {
    if (url.protocol !== 'http:') {
      await connects(url, signal);
      return { quota: null, clock: null };
    }
    const beforeMs = clock.wallMs();
    const reply = await fetch(new URL('/metrics', url), { signal });
    const afterMs = clock.wallMs();
    const dateMs = Date.parse(reply.headers.get('date') ?? '');
    const quota = Number(/^etcd_server_quota_backend_bytes (\S+)$/m.exec(await reply.text())?.[1] ?? 0);
    return {
      quota: quota > 0 ? quota : null,
      // The time of the member is that of the header or up to a second later.
      clock: Number.isNaN(dateMs) ? null : judgeClock(dateMs, beforeMs - DATE_STEP_MS, afterMs),
    };
  } catch {
    return null;
  }
}

/** Rejects when no connection is made before the signal aborts. */
async function connects({ hostname, port }: URL, signal: AbortSignal): Promise<void> {
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 443) });
  try {
    await once(socket, 'connect', { signal });
  } finally {
    socket.destroy();
  }
}

/** There is a leader, so that a majority is up. */
export function judgeReachable(reports: readonly MemberReport[]): Verdict {
  const silent = reports.filter(({ isUp }) => !isUp).map(({ label }) => label);
  const found = `${reports.length - silent.length} of the ${reports.length} members answer`;
  if (silent.length === 0)
    return ok(
      found,
      'All members are up: a majority is left after as many failures as the cluster tolerates.',
    );
  return warn(
    `${found}; no answer from ${silent.join(', ')}`,
    'Locks are granted while a majority answers. Until then, the loss of another member may end all grants ' +
      'and renewals.',
    'Start the members that are down, or repair the network to them.',
  );
}

/** The smallest quota; `null`: not visible. */
export function quotaOf(reports: readonly MemberReport[]): number | null {
  const known = reports.flatMap(({ quota }) => quota ?? []);
  return known.length === 0 ? null : Math.min(...known);
}
