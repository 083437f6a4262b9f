import {
  type DiagnoseContext,
  type Finding,
  fail,
  ok,
  runCheck,
  unknown,
  type Verdict,
  warn,
} from '../../store/finding.ts';
import { serverChecks } from '../redis/diagnose.ts';
import { ServerFacts } from '../redis/server-checks.ts';
import { checkWakeUp } from '../shared/wake-up-check.ts';
import { worstAmong } from '../shared/worst-verdict.ts';
import type { RedlockNode } from './node.ts';

const NODES_MIN = 3;

/** The checks of every node, and of all of them together. Rejects when no node answers. */
export async function diagnoseRedlock(
  context: DiagnoseContext,
  nodes: readonly RedlockNode[],
): Promise<readonly Finding[]> {
  const reached = await Promise.allSettled(nodes.map((node) => node.reach(context.signal)));
  const live = reached.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  const silent = nodes.filter((_, n) => reached[n]?.status === 'rejected').map(({ label }) => label);
  const [first] = live;
  if (first === undefined) throw reached.find((each) => each.status === 'rejected')?.reason;
  const servers = live.map(({ label, readiness: { connection }, keys }) => ({ label, connection, keys }));
  const facts = servers.map(({ label, connection }) => ({ label, facts: new ServerFacts(connection) }));
  return await Promise.all([
    runCheck(context, 'redlock-nodes', () => judgeCount(nodes.length)),
    runCheck(context, 'redlock-reachable', () => judgeReachable(nodes.length, silent)),
    runCheck(context, 'redlock-same-server', () => checkRunIds(facts)),
    runCheck(context, 'redlock-hosts', () => judgeHosts(nodes.map(({ label }) => label))),
    runCheck(context, 'redlock-restart', () =>
      worstAmong(facts, ({ facts }) => checkRestart(context.ttlMs, facts)),
    ),
    ...serverChecks(context, first.readiness, servers),
    runCheck(context, 'wake-up', () =>
      worstAmong(live, ({ server }) => checkWakeUp(context, server.subscription)),
    ),
  ]);
}

type LabelledFacts = ReadonlyArray<{ readonly label: string; readonly facts: ServerFacts }>;

function judgeCount(count: number): Verdict {
  const tolerated = Math.ceil(count / 2) - 1;
  const found = `${count} nodes; locks work while ${tolerated} of them are down`;
  if (count < NODES_MIN)
    return warn(found, 'No node may fail: without it, no lock can be acquired.', 'Use three or five nodes.');
  if (count % 2 === 0)
    return warn(
      found,
      'One node fewer would tolerate as many failures, with fewer nodes that can fail.',
      `Use ${count - 1} or ${count + 1} nodes.`,
    );
  return ok(found, 'A majority decides, also while a minority is down.');
}

function judgeReachable(count: number, silent: readonly string[]): Verdict {
  if (silent.length === 0) return ok('every node answers', 'A majority can be reached.');
  const found = `no answer from ${silent.join(', ')}`;
  const advice = 'Start these nodes, and check the connections to them.';
  if (count - silent.length < Math.floor(count / 2) + 1)
    return fail(found, 'There is no majority: no lock can be acquired, renewed or released.', advice);
  return warn(found, 'Fewer nodes can fail before no lock can be acquired.', advice);
}

/** Two clients may lead to one server, whose vote would count twice. */
async function checkRunIds(nodes: LabelledFacts): Promise<Verdict> {
  const labels = new Map<string, string>();
  for (const { label, facts } of nodes) {
    const id = (await facts.info()).get('run_id') ?? '';
    const other = labels.get(id);
    if (other !== undefined)
      return fail(
        `${other} and ${label} are the same server`,
        'Its vote would count twice, and two could hold one lock. The store refuses these nodes.',
        'Name every server once.',
      );
    labels.set(id, label);
  }
  return ok('every node is a server of its own', 'Each vote counts once.');
}

/** A label is `host:port`, or a number where the address of the client is not known. */
export function judgeHosts(labels: readonly string[]): Verdict {
  const hosts = labels.filter((label) => /:\d+$/.test(label)).map((label) => label.replace(/:\d+$/, ''));
  const shared = hosts.find((host, n) => hosts.indexOf(host) < n);
  if (shared === undefined && hosts.length < labels.length)
    return unknown(
      `the clients of ${labels.length - hosts.length} nodes do not tell their addresses`,
      'Nodes on one host fail and restart together: a majority may forget locks at once.',
      'See to it that every node has a host with its own disk and power supply.',
    );
  if (shared === undefined)
    return ok('every node has a host of its own', 'A host that fails takes one node with it.');
  return warn(
    `several nodes are on ${shared}`,
    'Nodes that fail or restart together are not independent: a majority may forget locks at once.',
    'Put every node on a host with its own disk and power supply.',
  );
}

/** A node that has forgotten its votes may help to grant a lock that is held, until the TTL is over. */
async function checkRestart(ttlMs: number, facts: ServerFacts): Promise<Verdict> {
  const info = await facts.info();
  const upMs = Number(info.get('uptime_in_seconds')) * 1_000;
  if (upMs > ttlMs) return ok('up for longer than the TTL', 'The node knows every lock that is held.');
  if (info.get('aof_enabled') === '1' && (await facts.config('appendfsync')) === 'always')
    return ok('restarted within the TTL, with its data', 'The node knows every lock that is held.');
  return warn(
    `restarted ${upMs / 1_000} s ago, perhaps without its data`,
    'Locks that are held may be granted again, with the vote of this node, until the TTL is over.',
    'Start a node that has lost its data only after the longest TTL, or set appendfsync to always.',
  );
}
