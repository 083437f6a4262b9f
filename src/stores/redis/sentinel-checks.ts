import { fail, ok, type Verdict, warn } from '../../store/finding.ts';
import { copyOf, type IoredisClient } from './ioredis-client.ts';
import { fieldsOf } from './server-info.ts';

/** One Sentinel, and its view of the master; `null` when it did not answer. */
export interface SentinelReading {
  readonly address: string;
  readonly view: SentinelView | null;
}

export interface SentinelView {
  /** `host:port` of the master. */
  readonly master: string;
  /** Words such as `s_down`: this Sentinel cannot reach the master. */
  readonly flags: readonly string[];
  readonly quorum: number;
  /** With this one. */
  readonly sentinels: number;
  readonly replicas: number;
}

/** The options by which an ioredis client follows Sentinels. */
interface SentinelOptions {
  readonly sentinels?: readonly { readonly host?: string; readonly port?: number }[] | null | undefined;
  /** Of the master. */
  readonly name?: string | null | undefined;
  readonly sentinelUsername?: string | null | undefined;
  readonly sentinelPassword?: string | null | undefined;
  readonly sentinelTLS?: object | undefined;
}

export const SENTINEL_PORT = 26_379;

/**
 * Asks each Sentinel over a connection of its own. One without an answer has the view `null`. The
 * result is `null` for a client that follows none.
 */
export function readSentinels(
  client: IoredisClient,
  limitMs: number,
): Promise<readonly SentinelReading[]> | null {
  const { sentinels, name } = client.options as SentinelOptions;
  if (sentinels == null || name == null) return null;
  return Promise.all(
    sentinels.map(async ({ host = '127.0.0.1', port = SENTINEL_PORT }) => {
      const address = `${host}:${port}`;
      const sentinel = sentinelAt(client, host, port, limitMs);
      try {
        return { address, view: viewIn(await sentinel.call('sentinel', ['master', name])) };
      } catch {
        return { address, view: null };
      } finally {
        sentinel.disconnect();
      }
    }),
  );
}

function sentinelAt(client: IoredisClient, host: string, port: number, limitMs: number): IoredisClient {
  const { sentinelUsername, sentinelPassword, sentinelTLS } = client.options as SentinelOptions;
  return copyOf(client, {
    host,
    port,
    sentinels: null,
    username: sentinelUsername ?? undefined,
    password: sentinelPassword ?? undefined,
    tls: sentinelTLS,
    db: 0,
    failoverDetector: false,
    enableReadyCheck: false,
    connectTimeout: limitMs,
    commandTimeout: limitMs,
  });
}

/** Reads a reply to SENTINEL MASTER. */
function viewIn(reply: unknown): SentinelView {
  const fields = fieldsOf(reply);
  const number = (name: string): number => Number(fields.get(name) ?? 0);
  return {
    master: `${fields.get('ip')}:${fields.get('port')}`,
    flags: String(fields.get('flags') ?? '').split(','),
    quorum: number('quorum'),
    sentinels: number('num-other-sentinels') + 1,
    replicas: number('num-slaves'),
  };
}

/** How many Sentinels there are, and how many have to agree that the master is down. */
export function judgeQuorum(readings: readonly SentinelReading[]): Verdict {
  const views = readings.flatMap(({ view }) => (view === null ? [] : [view]));
  if (views.length === 0) throw new Error('no Sentinel has answered');
  const sentinels = Math.max(...views.map((view) => view.sentinels));
  const quorum = Math.min(...views.map((view) => view.quorum));
  const majority = Math.floor(sentinels / 2) + 1;
  const found = `${sentinels} Sentinels, quorum ${quorum}`;
  if (quorum > sentinels)
    return fail(
      found,
      'The Sentinels can never agree that the master is down: no replica takes over.',
      `Lower the quorum to ${majority}.`,
    );
  if (sentinels < 3)
    return warn(
      found,
      'Without one of the Sentinels there is no failover, and locks wait until the master is back.',
      'Run three Sentinels or more, on hosts of their own.',
    );
  if (quorum < majority)
    return warn(
      found,
      'A minority that is cut off from the master starts failovers. Each may forget locks that are held.',
      `Raise the quorum to ${majority}.`,
    );
  return ok(found, 'A majority of the Sentinels decides on a failover.');
}

/** Whether the Sentinels answer, agree on the master and can reach it. */
export function judgeState(readings: readonly SentinelReading[]): Verdict {
  const views = readings.flatMap(({ view }) => (view === null ? [] : [view]));
  if (views.length === 0) throw new Error('no Sentinel has answered');
  const masters = [...new Set(views.map(({ master }) => master))];
  if (masters.length > 1)
    return fail(
      `the Sentinels name different masters: ${masters.join(', ')}`,
      'Two servers may grant the same lock until the Sentinels agree.',
      'Wait for the failover to end. Check the connections between the Sentinels if it does not.',
    );
  const down = views.filter(({ flags }) => flags.some((flag) => /^[so]_down$/.test(flag)));
  if (down.length > 0)
    return fail(
      `${down.length} of ${views.length} Sentinels cannot reach the master`,
      'A failover may begin, and it may forget locks that are held.',
      'Check the master, and the connections between it and the Sentinels.',
    );
  return judgeSpare(readings, views);
}

function judgeSpare(readings: readonly SentinelReading[], views: readonly SentinelView[]): Verdict {
  const silent = readings.filter(({ view }) => view === null).map(({ address }) => address);
  if (silent.length > 0)
    return warn(
      `no answer from the Sentinels ${silent.join(', ')}`,
      'With fewer Sentinels a failover takes longer, or does not happen.',
      'Start these Sentinels, or remove them from the URL.',
    );
  const replicas = Math.max(...views.map((view) => view.replicas));
  if (replicas === 0)
    return warn(
      'the master has no replica',
      'There is no failover: locks wait until the master is back.',
      'Add a replica.',
    );
  return ok(
    `all Sentinels agree on the master, which has ${replicas} replicas`,
    'A replica takes over when the master fails. It may not know of the last claims.',
  );
}
