import {
  type Check,
  type DiagnoseContext,
  type Finding,
  fail,
  ok,
  runCheck,
  type Verdict,
  warn,
} from '../../store/finding.ts';
import { judgeVoters } from '../shared/voters.ts';
import { worstOf } from '../shared/worst-verdict.ts';
import type { Calls } from './calls.ts';
import type { Member, StatusReply } from './client.ts';
import { isDenied } from './failure.ts';
import type { Keys } from './key.ts';
import { defectsOf, isSupported } from './lease-defects.ts';
import { askMembers, judgeReachable, quotaOf } from './member-checks.ts';

/** The client asks a member of its choice. This many questions almost always reach every member. */
const STATUS_QUESTIONS = 24;
/** The quota of a member whose quota is not set or not visible. */
const QUOTA_DEFAULT = 2 * 1024 ** 3;
/** The check warns above this share of the quota. */
const QUOTA_SHARE = 0.8;
/** An election takes about a second, and a hold has to be renewed after it. */
const TTL_MIN_MS = 5_000;
/** Greater than any revision. */
const NEVER = String(2n ** 63n - 1n);

/** Rejects with a `StoreError` when no member answers. */
export async function diagnose(
  calls: Calls,
  keys: Keys,
  context: DiagnoseContext,
): Promise<readonly Finding[]> {
  const replies = await askStatus(calls);
  const statuses = [...new Map(replies.map((reply) => [reply.header.member_id, reply])).values()];
  const alarms = statuses.flatMap(({ errors }) => errors).filter((error) => error.includes('alarm:'));
  const hasLeader = statuses.some(({ leader }) => leader !== '0');
  const checks: Check[] = [
    { check: 'etcd-version', run: () => judgeVersions(statuses.map(({ version }) => version)) },
    { check: 'etcd-leader', run: () => judgeLeader(hasLeader) },
    { check: 'etcd-corruption', run: () => judgeCorruption(alarms) },
    { check: 'etcd-ttl', run: () => judgeTtl(context.ttlMs) },
  ];
  // Without a leader the others would wait for one until their time is over.
  if (hasLeader) {
    const members = calls.members();
    const answered = new Set(statuses.map(({ header }) => header.member_id));
    // The checks that await the members report that they could not be listed.
    const reports = await members.then(
      (known) => askMembers(known, answered, context),
      () => [],
    );
    const size = Math.max(...statuses.map(({ dbSize }) => Number(dbSize)));
    const clocks = reports.flatMap(({ label, clock }) => (clock === null ? [] : [[label, clock] as const]));
    checks.push(
      { check: 'etcd-members', run: async () => judgeMembers(await members) },
      { check: 'etcd-reachable', run: async () => judgeReachable((await members) && reports) },
      { check: 'etcd-quota', run: () => judgeQuota(size, quotaOf(reports), alarms) },
    );
    if (clocks.length > 0) checks.push({ check: 'clock-difference', run: () => worstOf(clocks) });
    // Under this alarm etcd refuses every request.
    if (!isCorrupt(alarms))
      checks.push({ check: 'etcd-permissions', run: () => checkPermissions(calls, keys) });
  }
  return await Promise.all(checks.map(({ check, run }) => runCheck(context, check, run)));
}

async function askStatus(calls: Calls): Promise<readonly StatusReply[]> {
  const questions = Array.from({ length: STATUS_QUESTIONS }, () => calls.status());
  const settled = await Promise.allSettled(questions);
  const replies = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  const failed = settled.find((each) => each.status === 'rejected');
  if (replies.length === 0 && failed !== undefined) throw failed.reason;
  return replies;
}

export function judgeVersions(versions: readonly string[]): Verdict {
  const found = `etcd ${[...new Set(versions)].sort().join(' and ')}`;
  if (!versions.every(isSupported))
    return fail(found, 'The store was not made for this version.', 'Use etcd 3.4 or newer.');
  const defects = versions.map(defectsOf).filter(({ means }) => means.length > 0);
  if (defects.length === 0) return ok(found, 'No defect of leases is known in this version.');
  const judge = defects.some(({ breaksFences }) => breaksFences) ? fail : warn;
  return judge(
    found,
    [...new Set(defects.flatMap(({ means }) => means))].join(' '),
    `Run ${[...new Set(defects.map(({ fixedIn }) => fixedIn))].sort().join(' and ')} or newer.`,
  );
}

function judgeLeader(hasLeader: boolean): Verdict {
  if (hasLeader) return ok('there is a leader', 'A majority can agree on grants.');
  return fail(
    'there is no leader',
    'Nothing can be granted, renewed or released. Holds end at their own deadlines.',
    'Start the members that are down, or repair the network between the members.',
  );
}

function isCorrupt(alarms: readonly string[]): boolean {
  return alarms.some((alarm) => alarm.includes('CORRUPT'));
}

function judgeCorruption(alarms: readonly string[]): Verdict {
  if (!isCorrupt(alarms)) return ok('no alarm of corrupt data', 'The members have the same data.');
  return fail(
    'the alarm CORRUPT is raised',
    'The data of the members differ: two processes may hold one lock, and fences may repeat.',
    'Stop using the cluster, and replace the member whose data are wrong.',
  );
}

export function judgeMembers(members: readonly Member[]): Verdict {
  const learners = members.filter(({ isLearner }) => isLearner).length;
  return judgeVoters(
    members.length - learners,
    { count: learners, do: 'learn' },
    'While this member is down nothing is granted or renewed. If its disk is lost, so are locks and fences.',
  );
}

/** In bytes. `quota`: `null` when it is not visible. */
export function judgeQuota(size: number, quota: number | null, alarms: readonly string[]): Verdict {
  const limit = quota ?? QUOTA_DEFAULT;
  const of = quota === null ? 'the default quota' : 'the quota';
  const percent = Math.round((size / limit) * 100);
  const found = `the database has ${shown(size)}, ${percent} % of ${of} of ${shown(limit)}`;
  if (alarms.some((alarm) => alarm.includes('NOSPACE')))
    return fail(
      `the alarm NOSPACE is raised; ${found}`,
      'No lock can be acquired. Holds can be renewed and released.',
      'Compact and defragment, raise --quota-backend-bytes, then run "etcdctl alarm disarm".',
    );
  if (size <= limit * QUOTA_SHARE) return ok(found, 'There is room for more locks.');
  return warn(
    found,
    'When the quota is used up, no lock can be acquired until an administrator ends the alarm.',
    'Compact and defragment, or raise --quota-backend-bytes.',
  );
}

function shown(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(bytes < 1024 ** 2 ? 2 : 0)} MiB`;
}

/**
 * A transaction whose condition is never met: etcd checks the permissions of both of its branches. It
 * deletes instead of putting a key, because a put that exceeds the space quota would raise the alarm.
 */
async function checkPermissions(calls: Calls, keys: Keys): Promise<Verdict> {
  const { from: key } = keys.all('holdfast-doctor');
  const prefix = `the prefix "${keys.prefix}"`;
  try {
    const txn = {
      compare: [{ target: 'Create', result: 'Greater', key, create_revision: NEVER }],
      success: [{ request_delete_range: { key } }],
      failure: [{ request_range: { key } }],
    } as const;
    await calls.writes.add({ txn, conflict: key });
    return ok(`keys under ${prefix} can be read and written`, 'Locks can be acquired and released.');
  } catch (error) {
    if (!isDenied(error)) throw error;
    return fail(
      `the user may not read and write keys under ${prefix}`,
      'No lock can be acquired.',
      `Grant it: etcdctl role grant-permission --prefix=true ROLE readwrite "${keys.prefix}".`,
    );
  }
}

function judgeTtl(ttlMs: number): Verdict {
  const found = `ttlMs is ${ttlMs}`;
  if (ttlMs >= TTL_MIN_MS) return ok(found, 'A hold survives the election of another leader.');
  return warn(
    found,
    'An election takes about a second, and until there is a leader nothing can be confirmed: a hold can be ' +
      'lost when a leader dies.',
    `Set ttlMs to at least ${TTL_MIN_MS}.`,
  );
}
