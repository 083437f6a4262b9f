import { checkClock } from '../../store/clock-check.ts';
import { type DiagnoseContext, type Finding, runCheck, type Verdict } from '../../store/finding.ts';
import type { QueueSubscription } from '../shared/server-queue-store.ts';
import { checkWakeUp } from '../shared/wake-up-check.ts';
import { worstAmong } from '../shared/worst-verdict.ts';
import type { RedisConnection } from './connection.ts';
import type { Keys } from './keys.ts';
import { type ReadinessCheck, VERSION_MIN } from './readiness-check.ts';
import { checkRights } from './rights-check.ts';
import { judgeQuorum, judgeState } from './sentinel-checks.ts';
import {
  checkEviction,
  checkMemory,
  checkPersistence,
  checkReplicas,
  checkRole,
  checkVersion,
  ServerFacts,
} from './server-checks.ts';

/** How long a Sentinel may take to connect, and to answer. */
const SENTINEL_MS = 1_500;

/** A server that is checked. */
export interface DiagnosedServer {
  /** Its address. */
  readonly label: string;
  readonly connection: RedisConnection;
  readonly keys: Keys;
}

/** The checks of one Redis server, and of the Sentinels in front of it. */
export async function diagnoseRedis(
  context: DiagnoseContext,
  readiness: ReadinessCheck,
  keys: Keys,
  subscription: QueueSubscription,
): Promise<readonly Finding[]> {
  const { connection } = readiness;
  await readiness.untilConnected(context.signal);
  return await Promise.all([
    ...serverChecks(context, readiness, [{ label: '', connection, keys }]),
    ...sentinelChecks(context, connection),
    runCheck(context, 'wake-up', () => checkWakeUp(context, subscription)),
  ]);
}

/** The checks that each of these servers has to pass. */
export function serverChecks(
  context: DiagnoseContext,
  { connection, allowEviction }: Pick<ReadinessCheck, 'connection' | 'allowEviction'>,
  servers: readonly DiagnosedServer[],
): readonly Promise<Finding>[] {
  const { versionMin = VERSION_MIN } = connection;
  const known = servers.map((server) => ({ ...server, facts: new ServerFacts(server.connection) }));
  const each = (check: string, run: (facts: ServerFacts, keys: Keys) => Promise<Verdict>): Promise<Finding> =>
    runCheck(context, check, () =>
      worstAmong(known, async ({ facts, keys }) => {
        const { check: _, ...verdict } = await runCheck(context, check, () => run(facts, keys));
        return verdict;
      }),
    );
  return [
    each('redis-version', (facts) => checkVersion(facts, versionMin)),
    each('redis-role', checkRole),
    each('redis-rights', (facts, keys) => checkRights(facts.connection, keys)),
    each('redis-eviction-policy', (facts) => checkEviction(facts, allowEviction)),
    each('redis-memory', checkMemory),
    each('redis-persistence', checkPersistence),
    each('redis-replicas', checkReplicas),
    each('clock-difference', (facts) => checkClock(context, () => facts.wallMs())),
  ];
}

/** None for a client that does not follow Sentinels. */
function sentinelChecks(context: DiagnoseContext, connection: RedisConnection): readonly Promise<Finding>[] {
  const readings = connection.askSentinels?.(Math.min(SENTINEL_MS, context.limitMs / 3)) ?? null;
  if (readings === null) return [];
  return [
    runCheck(context, 'redis-sentinel-quorum', async () => judgeQuorum(await readings)),
    runCheck(context, 'redis-sentinel-state', async () => judgeState(await readings)),
  ];
}
