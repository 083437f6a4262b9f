import { fail, ok, type Verdict, warn } from '../../store/finding.ts';
import type { RedisConnection } from './connection.ts';
import { evictionPolicyIn, fieldsIn, fieldsOf, isOlder, type Version, versionIn } from './server-info.ts';

/** With less of its memory left than this share, a server may refuse new locks soon. */
const MEMORY_SHARE = 0.9;

/** What one server tells about itself. Each answer is asked for once, when it is first needed. */
export class ServerFacts {
  readonly connection: RedisConnection;
  #info: Promise<ReadonlyMap<string, string>> | null = null;

  constructor(connection: RedisConnection) {
    this.connection = connection;
  }

  info(): Promise<ReadonlyMap<string, string>> {
    this.#info ??= this.connection.send('info', []).then((reply) => fieldsIn(String(reply)));
    return this.#info;
  }

  /** Rejects where the user may not read settings, as on most managed servers. */
  async config(name: string): Promise<string> {
    return String(fieldsOf(await this.connection.send('config', ['get', name])).get(name) ?? '');
  }

  /** Milliseconds since 1970 by the clock of the server. */
  async wallMs(): Promise<number> {
    const [seconds, micros] = (await this.connection.send('time', [])) as [string, string];
    return Number(seconds) * 1_000 + Number(micros) / 1_000;
  }
}

export async function checkVersion(facts: ServerFacts, min: Version): Promise<Verdict> {
  const info = await facts.info();
  const version = versionIn(info);
  if (version === null) throw new Error('the server does not tell its version');
  const found = `Redis ${info.get('redis_version')}`;
  if (!isOlder(version, min))
    return ok(found, 'The server has every command that exclusion, fences and handoff need.');
  const needed = `Redis ${min.join('.')} or newer`;
  return fail(`${found}; ${needed} is needed`, 'The store refuses this server.', `Upgrade to ${needed}.`);
}

export async function checkRole(facts: ServerFacts): Promise<Verdict> {
  const role = (await facts.info()).get('role');
  if (role === 'master') return ok('the server is a master', 'Locks can be acquired, renewed and released.');
  return fail(
    'the server is a replica',
    'A replica refuses writes: no lock can be acquired, renewed or released.',
    'Connect to the master: by redis+sentinel: or redis+cluster: where there is a failover.',
  );
}

export async function checkEviction(facts: ServerFacts, isAllowed: boolean): Promise<Verdict> {
  const policy = evictionPolicyIn(await facts.info());
  if (policy === null)
    return ok('no key is evicted', 'A lock ends only when it is released, evicted by hand or expired.');
  const found = `maxmemory is set, and maxmemory-policy is ${policy}`;
  const means = 'The server may evict a lock that is held, and then two hold it.';
  const advice = 'Set maxmemory-policy to noeviction, or give the locks a server of their own.';
  return isAllowed
    ? warn(`${found}; allowEviction is set`, means, advice)
    : fail(found, `${means} The store refuses this server.`, advice);
}

export async function checkMemory(facts: ServerFacts): Promise<Verdict> {
  const info = await facts.info();
  const [used, max] = [Number(info.get('used_memory')), Number(info.get('maxmemory') ?? 0)];
  if (max === 0) return ok('maxmemory is not set', 'The server does not refuse locks for lack of memory.');
  const found = `${Math.round((used / max) * 100)} % of maxmemory is used`;
  if (used < max * MEMORY_SHARE) return ok(found, 'There is memory for more locks.');
  return warn(
    found,
    'Once the memory is full, new locks are refused. Renewals, releases and handoffs go on.',
    'Raise maxmemory, or move other data to another server.',
  );
}

const LOSS =
  'and then two can hold one lock. A fence gate refuses the earlier one once the later one has written.';
const DURABLE = 'Set appendonly to yes and appendfsync to always, where two holders would do damage.';

export async function checkPersistence(facts: ServerFacts): Promise<Verdict> {
  const info = await facts.info();
  const isLogged = info.get('aof_enabled') === '1';
  const isLogBroken = isLogged && info.get('aof_last_write_status') === 'err';
  const hasSaveFailed = info.get('rdb_last_bgsave_status') === 'err';
  if (isLogBroken || (hasSaveFailed && (await stopsWrites(facts))))
    return fail(
      isLogBroken ? 'the last write to the log failed' : 'the last snapshot failed',
      'The server refuses writes: no lock can be acquired, renewed or released.',
      'Look into the log of the server: its disk may be full, or its folder gone.',
    );
  if (isLogged) return await checkLog(facts);
  const saves = await facts.config('save');
  return saves === ''
    ? warn('nothing is saved to disk', `A restart forgets every lock that is held, ${LOSS}`, DURABLE)
    : warn(
        `only snapshots are saved (save ${saves})${hasSaveFailed ? ', and the last one failed' : ''}`,
        `A crash forgets the locks since the last snapshot, ${LOSS}`,
        DURABLE,
      );
}

async function checkLog(facts: ServerFacts): Promise<Verdict> {
  const policy = await facts.config('appendfsync');
  const found = `every write is logged (appendfsync ${policy})`;
  if (policy === 'always')
    return ok(found, 'Locks and fences survive a crash of the server and of its host.');
  const lost = policy === 'everysec' ? 'the last second' : 'what the system had not written';
  return warn(found, `A crash of the host loses ${lost}, ${LOSS}`, 'Set appendfsync to always.');
}

/** Whether the server refuses writes after a snapshot that failed: only if it has to make snapshots. */
async function stopsWrites(facts: ServerFacts): Promise<boolean> {
  if ((await facts.config('stop-writes-on-bgsave-error')) !== 'yes') return false;
  return (await facts.config('save')) !== '';
}

export async function checkReplicas(facts: ServerFacts): Promise<Verdict> {
  const info = await facts.info();
  const count = Number(info.get('connected_slaves') ?? 0);
  // Told only where min-replicas-to-write is set.
  const good = info.get('min_slaves_good_slaves');
  const found = `${count} replicas are connected`;
  if (good !== undefined) return await checkBoundReplicas(facts, found, Number(good));
  if (count === 0)
    return ok('there are no replicas', 'No failover can forget a lock. Locks wait until the server is back.');
  return warn(
    `${found}; min-replicas-to-write is 0`,
    'A master that was cut off goes on granting locks that the promoted replica grants too.',
    'Set min-replicas-to-write to 1 or more, and use waitReplicas and a fence gate.',
  );
}

async function checkBoundReplicas(facts: ServerFacts, found: string, good: number): Promise<Verdict> {
  const min = Number(await facts.config('min-replicas-to-write'));
  const bound = `${found}, ${good} of them in time; min-replicas-to-write is ${min}`;
  if (good < min)
    return fail(
      bound,
      'The server refuses writes: no lock can be acquired, renewed or released.',
      'Bring the replicas back, or lower min-replicas-to-write.',
    );
  return ok(
    bound,
    'A master that was cut off stops granting locks. A failover may still forget the last claims.',
  );
}
