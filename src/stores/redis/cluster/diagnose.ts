import {
  type DiagnoseContext,
  type Finding,
  fail,
  ok,
  runCheck,
  type Verdict,
  warn,
} from '../../../store/finding.ts';
import type { QueueSubscription } from '../../shared/server-queue-store.ts';
import { checkWakeUp } from '../../shared/wake-up-check.ts';
import type { RedisConnection } from '../connection.ts';
import { serverChecks } from '../diagnose.ts';
import { noConnection } from '../failure.ts';
import type { Keys } from '../keys.ts';
import type { ReadinessCheck } from '../readiness-check.ts';
import { fieldsIn, fieldsOf } from '../server-info.ts';
import type { ClusterConnection, ClusterMaster } from './cluster-connection.ts';
import { SLOTS } from './slots.ts';

/** A failover needs the votes of a majority of the masters. */
const MASTERS_MIN = 3;

/** The checks of every master, and of the Cluster as a whole. `subscription`: that of any slot. */
export async function diagnoseCluster(
  context: DiagnoseContext,
  readiness: ReadinessCheck,
  connection: ClusterConnection,
  keysOf: (slot: number) => Keys,
  subscription: QueueSubscription,
): Promise<readonly Finding[]> {
  await readiness.untilConnected(context.signal);
  const masters = await connection.masters();
  const servers = masters.flatMap(({ address, slot, connection: master }) =>
    master === null ? [] : [{ label: address, connection: master, keys: keysOf(slot) }],
  );
  const [first] = servers;
  if (first === undefined) throw noConnection(connection);
  return await Promise.all([
    ...serverChecks(context, readiness, servers),
    runCheck(context, 'redis-cluster-state', () => checkState(first.connection, masters)),
    runCheck(context, 'redis-cluster-nodes', () => checkNodes(first.connection)),
    runCheck(context, 'wake-up', () => checkWakeUp(context, subscription)),
  ]);
}

/** Whether every slot is served by a master that answers. */
async function checkState(node: RedisConnection, masters: readonly ClusterMaster[]): Promise<Verdict> {
  const silent = masters.filter(({ connection }) => connection === null).map(({ address }) => address);
  const means = 'Locks whose slots are not served cannot be acquired, renewed or released.';
  const advice = 'Start the node again, or let a replica take over (CLUSTER FAILOVER TAKEOVER).';
  if (silent.length > 0) return fail(`no answer from the masters ${silent.join(', ')}`, means, advice);
  const info = fieldsIn(String(await node.send('cluster', ['info'])));
  const assigned = Number(info.get('cluster_slots_assigned'));
  const state = info.get('cluster_state');
  if (assigned < SLOTS)
    return fail(
      `${SLOTS - assigned} of ${SLOTS} slots belong to no node`,
      means,
      'Assign them (redis-cli --cluster fix).',
    );
  if (state !== 'ok') return fail(`the state of the Cluster is ${state}`, means, advice);
  return ok('every slot is served', 'Every lock can be acquired, renewed and released.');
}

/** Whether the failure of any one master leaves a replica that takes over. */
async function checkNodes(node: RedisConnection): Promise<Verdict> {
  const shards = ((await node.send('cluster', ['shards'])) as unknown[]).map(nodesIn);
  const masters = shards.filter((nodes) => nodes.some(({ role }) => role === 'master')).length;
  const alone = shards.filter((nodes) => !nodes.some(({ role, isUp }) => role === 'replica' && isUp));
  const found = `${masters} masters, ${alone.length} of them without a replica`;
  if (alone.length > 0)
    return warn(
      found,
      'When such a master fails, its locks wait until it is back.',
      'Give every master a replica, on another host.',
    );
  if (masters < MASTERS_MIN)
    return warn(
      found,
      'When a master fails, no majority of masters is left to promote its replica.',
      'Use three masters or more.',
    );
  return ok(found, 'A replica takes over when a master fails. It may not know of the last claims.');
}

interface ShardNode {
  readonly role: string;
  readonly isUp: boolean;
}

function nodesIn(shard: unknown): readonly ShardNode[] {
  const nodes = fieldsOf(shard).get('nodes') as unknown[];
  return nodes.map((node) => {
    const fields = fieldsOf(node);
    // A replica is `loading` until the other nodes know its replication offset.
    return { role: String(fields.get('role')), isUp: !String(fields.get('health')).startsWith('fail') };
  });
}
