import { ok, type Verdict, warn } from '../../store/finding.ts';

/** A limit of connections, and how many of them are in use. */
export interface ConnectionLimit {
  /** `the server`, `the role` and so on. */
  readonly of: string;
  readonly max: number;
  readonly used: number;
}

/** The check warns when less than this share of the connections is free. */
const FEW_SHARE = 1 / 10;

/** `needed`: how many connections one process of the store opens at most. */
export function judgeConnections(limits: readonly ConnectionLimit[], needed: number): Verdict {
  const [tightest] = [...limits].sort((a, b) => a.max - a.used - (b.max - b.used));
  const { of = 'the server', max = 0, used = 0 } = tightest ?? {};
  const left = Math.max(max - used, 0);
  const found = `${left} of the ${max} connections of ${of} are left; a process needs up to ${needed}`;
  if (left >= needed && left >= max * FEW_SHARE)
    return ok(found, 'A process that starts now gets its connections.');
  return warn(
    found,
    'A process without a connection can neither acquire nor renew. A hold that cannot be renewed is lost.',
    `Raise the connection limit of ${of}, or use smaller connection pools.`,
  );
}
