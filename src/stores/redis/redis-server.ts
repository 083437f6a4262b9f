import type { Clock } from '../../clock.ts';
import { observeScript, readScript } from '../../generated/redis-scripts.ts';
import type { DiagnoseContext, Finding } from '../../store/finding.ts';
import type { ClaimRef, ClaimRequest, RenewChange, RenewOutcome, StoredClaim } from '../../store/store.ts';
import type { Batch } from '../shared/batch.ts';
import type {
  ClaimAnswer,
  QueueServer,
  ReleaseAnswer,
  ReleaseRequest,
  SubscriptionEvents,
} from '../shared/server-queue-store.ts';
import { Subscription } from '../shared/subscription.ts';
import { runAlone, sendAlone } from './call.ts';
import { claimsIn, listNames } from './inspect.ts';
import type { Keys } from './keys.ts';
import { evictionMessage, messageIn } from './message.ts';
import { claimOperation, type RenewRequest, releaseOperation, renewOperation } from './operations.ts';
import type { ReadinessCheck } from './readiness-check.ts';
import { scriptBatch } from './script-batch.ts';

export interface RedisServerOptions {
  readonly clock: Clock;
  readonly queueMax: number;
  /**
   * False with `waitReplicas`: WAIT covers only writes of its own connection, so the waiter has to claim
   * again over ours.
   */
  readonly pushesGrants: boolean;
  readonly ownsClient: boolean;
}

/** The delays before a subscription that has ended is replaced: meanwhile, waiters have to poll. */
const RESUBSCRIBE_MS = { min: 50, max: 5_000 };

/** How often the subscription is checked, because a dead connection reports nothing. */
const HEARTBEAT_MS = 5_000;

/** One Redis server, or one slot of a Cluster: calls the scripts and receives their messages. */
export class RedisServer implements QueueServer {
  readonly kind = 'redis';
  readonly label = 'Redis';
  /** The scripts count fences in doubles. */
  readonly fenceMax = 2n ** 53n - 2n;
  readonly retry = {
    keepPositionMs: { min: 30_000, max: 45_000 },
    afterEndMs: { min: 2, max: 25 },
    firstLookMs: { min: 5_050, max: 5_300 },
    takeOverMs: { min: 5_050, max: 5_300 },
    unsubscribedMs: { min: 500, max: 1_000 },
    foreignHeadMs: { min: 500, max: 1_000 },
    foreignMs: { min: 3_000, max: 5_000 },
  };
  readonly #readiness: ReadinessCheck;
  readonly #keys: Keys;
  readonly #pushesGrants: boolean;
  readonly #ownsClient: boolean;
  readonly #claims: Batch<ClaimRequest, ClaimAnswer>;
  readonly #renewals: Batch<RenewRequest, RenewOutcome>;
  readonly #releases: Batch<ReleaseRequest, ReleaseAnswer>;
  /** The channel of this process. A message names the claim that it is for. */
  readonly #channel: string;
  readonly subscription: Subscription<string>;
  #events: SubscriptionEvents | null = null;

  constructor(
    readiness: ReadinessCheck,
    keys: Keys,
    { clock, queueMax, pushesGrants, ownsClient }: RedisServerOptions,
  ) {
    const { connection } = readiness;
    this.#pushesGrants = pushesGrants;
    this.#readiness = readiness;
    this.#keys = keys;
    this.#ownsClient = ownsClient;
    this.#channel = Math.floor(clock.random() * 2 ** 47).toString(36);
    this.subscription = new Subscription<string>({
      clock,
      open: (events) => {
        const channels = [keys.channelBase + this.#channel, keys.evictions];
        return connection.listen(
          channels.map((channel) => connection.keyPrefix + channel),
          events,
        );
      },
      retryMs: RESUBSCRIBE_MS,
      heartbeatMs: HEARTBEAT_MS,
      isWanted: () => this.#events?.isWanted() === true,
      onUp: () => this.#events?.onGap(),
      onDown: () => this.#events?.onGap(),
      onMessage: (message) => this.#onMessage(message),
    });
    const channel = (): string => (this.subscription.isUp ? this.#channel : '-');
    this.#claims = scriptBatch(readiness, clock, claimOperation(keys, queueMax, channel));
    this.#renewals = scriptBatch(readiness, clock, renewOperation(keys));
    this.#releases = scriptBatch(readiness, clock, releaseOperation(keys));
  }

  subscribe(events: SubscriptionEvents): Subscription<string> {
    this.#events = events;
    return this.subscription;
  }

  assertOpen(): void {
    this.#readiness.assertNotClosed();
  }

  claim(request: ClaimRequest, signal: AbortSignal | undefined): Promise<ClaimAnswer> {
    return this.#claims.add(request, signal);
  }

  renew({ name, id }: ClaimRef, change: RenewChange, signal: AbortSignal | undefined): Promise<RenewOutcome> {
    return this.#renewals.add({ name, id, change }, signal);
  }

  release(request: ReleaseRequest, signal: AbortSignal | undefined): Promise<ReleaseAnswer> {
    return this.#releases.add(request, signal);
  }

  async announceEviction({ name, id }: ClaimRef, signal: AbortSignal | undefined): Promise<void> {
    const { keyPrefix } = this.#readiness.connection;
    const { plain } = this.#keys.of(name);
    const message = [keyPrefix + this.#keys.evictions, evictionMessage(keyPrefix + plain, id)];
    await sendAlone(this.#readiness, this.#keys.publish.toLowerCase(), message, signal, plain);
  }

  async observe(name: string, forMs: number): Promise<boolean> {
    const { queue } = this.#keys.of(name);
    if (forMs === 0) await sendAlone(this.#readiness, 'zrem', [queue, this.#channel], undefined);
    // The scripts remove observers that are not subscribed. This one registers again as soon as it
    // is.
    else if (this.subscription.isUp)
      await runAlone(this.#readiness, observeScript, [queue], [this.#channel, `${forMs}`], undefined);
    return true;
  }

  async read(name: string, signal: AbortSignal | undefined): Promise<readonly StoredClaim[]> {
    const { plain, queue, info } = this.#keys.of(name);
    return claimsIn(await runAlone(this.#readiness, readScript, [plain, queue, info], [], signal));
  }

  list(prefix: string, signal: AbortSignal | undefined): AsyncIterable<string> {
    return listNames(this.#readiness, this.#keys, prefix, signal);
  }

  async replicasWith(name: string, count: number, limitMs: number, signal?: AbortSignal): Promise<number> {
    const args = [`${count}`, `${limitMs}`];
    return Number(await sendAlone(this.#readiness, 'wait', args, signal, this.#keys.of(name).plain));
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    const { diagnoseRedis } = await import('./diagnose.ts');
    return await diagnoseRedis(context, this.#readiness, this.#keys, this.subscription);
  }

  /** No request is pending. */
  get isIdle(): boolean {
    return [this.#claims, this.#renewals, this.#releases].every((batch) => batch.isIdle);
  }

  async close(): Promise<void> {
    this.#readiness.close();
    this.#readiness.connection.leave();
    if (this.#ownsClient) await this.#readiness.connection.close();
  }

  #onMessage(text: string): void {
    const message = messageIn(text);
    if (message === null || this.#events === null) return;
    const name = this.#nameOf(message.key);
    if (message.kind === 'evicted') this.#events.onEvicted(message.id);
    else if (message.kind === 'granted') {
      this.#events.onGranted(name, message.id, this.#pushesGrants ? message.grant : null);
    } else if (message.kind === 'changed') this.#events.onChanged(name, message.mayGrant);
    else this.#events.onHandoff(name);
  }

  /** Keys in messages begin with the prefix of the client. */
  #nameOf(key: string): string {
    return this.#keys.nameIn(key.slice(this.#readiness.connection.keyPrefix.length)) ?? '';
  }
}
