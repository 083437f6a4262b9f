import type { Clock } from '../../clock.ts';
import { observeScript, readScript } from '../../generated/redis-scripts.ts';
import { DEFAULTS } from '../../options.ts';
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
import { claimsIn, listNames } from './inspect.ts';
import type { Keys } from './keys.ts';
import { claimOperation, type RenewRequest, releaseOperation, renewOperation } from './operations.ts';
import { PushedGrantAge } from './pushed-grant-age.ts';
import type { ReadinessCheck } from './readiness-check.ts';
import type { RedisStoreOptions } from './redis-store.ts';
import { scriptBatch } from './script-batch.ts';

/** The fence of a grant in a message, and its end by the server's clock. */
const FENCE = /^\d{16}$/;
const TIME = /^\d+$/;

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
    unsubscribedMs: { min: 500, max: 1_000 },
    foreignHeadMs: { min: 500, max: 1_000 },
    foreignMs: { min: 3_000, max: 5_000 },
  };
  readonly #readiness: ReadinessCheck;
  readonly #keys: Keys;
  /**
   * False with `waitReplicas`: WAIT covers only writes of its own connection, so the waiter has to
   * claim again over ours.
   */
  readonly #pushesGrants: boolean;
  readonly #ownsClient: boolean;
  readonly #claims: Batch<ClaimRequest, ClaimAnswer>;
  readonly #renewals: Batch<RenewRequest, RenewOutcome>;
  readonly #releases: Batch<ReleaseRequest, ReleaseAnswer>;
  /** The channel of this process. A message names the claim that it is for. */
  readonly #channel: string;
  readonly #pushedGrantAge: PushedGrantAge;
  readonly subscription: Subscription<string>;
  #events: SubscriptionEvents | null = null;

  constructor(
    readiness: ReadinessCheck,
    keys: Keys,
    options: RedisStoreOptions & { readonly clock: Clock },
    ownsClient: boolean,
  ) {
    const { connection } = readiness;
    const { clock, queueMax = DEFAULTS.queueMax, waitReplicas = 0 } = options;
    this.#pushesGrants = waitReplicas === 0;
    this.#readiness = readiness;
    this.#keys = keys;
    this.#ownsClient = ownsClient;
    this.#pushedGrantAge = new PushedGrantAge(clock);
    this.#channel = Math.floor(clock.random() * 2 ** 47).toString(36);
    const ours = connection.keyPrefix + keys.channelBase + this.#channel;
    const evictions = connection.keyPrefix + keys.evictions;
    this.subscription = new Subscription<string>({
      clock,
      open: (events) => connection.listen([ours, evictions], events),
      isWanted: () => this.#events?.isWanted() === true,
      onUp: () => this.#onGap(),
      onDown: () => this.#onGap(),
      onMessage: (message) => this.#onMessage(message),
    });
    const channel = (): string => (this.subscription.isUp ? this.#channel : '-');
    this.#claims = scriptBatch(
      readiness,
      clock,
      claimOperation(keys, queueMax, channel, this.#pushedGrantAge),
    );
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
    const message = [keyPrefix + this.#keys.evictions, `e\n${keyPrefix}${plain}\n${id}`];
    await this.#readiness.send(this.#keys.publish.toLowerCase(), message, signal);
  }

  async observe(name: string, forMs: number, signal: AbortSignal): Promise<boolean> {
    const { queue } = this.#keys.of(name);
    if (forMs === 0) await this.#readiness.send('zrem', [queue, this.#channel], signal);
    // The scripts remove observers that are not subscribed. This one registers again once it is.
    else if (this.subscription.isUp)
      await this.#readiness.run(observeScript, [queue], [this.#channel, `${forMs}`], signal);
    return true;
  }

  async read(name: string, signal: AbortSignal | undefined): Promise<readonly StoredClaim[]> {
    const { plain, queue, info } = this.#keys.of(name);
    return claimsIn(await this.#readiness.run(readScript, [plain, queue, info], [], signal));
  }

  list(prefix: string, signal: AbortSignal | undefined): AsyncIterable<string> {
    return listNames(this.#readiness, this.#keys, prefix, signal);
  }

  async replicasWith(name: string, count: number, limitMs: number, signal?: AbortSignal): Promise<number> {
    const args = [`${count}`, `${limitMs}`];
    return Number(await this.#readiness.send('wait', args, signal, this.#keys.of(name).plain));
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

  /** Messages may have been missed, and the next ones may come from another server. */
  #onGap(): void {
    this.#pushedGrantAge.forget();
    this.#events?.onGap();
  }

  /**
   * Never throws: other programs may publish to the channel too, and an error in an event listener
   * of the client would end the process.
   */
  #onMessage(text: string): void {
    const [kind, key = '', id = '', fence = '', ends = ''] = text.split('\n');
    // Keys in messages begin with the prefix of the client.
    const name = this.#keys.nameIn(key.slice(this.#readiness.connection.keyPrefix.length)) ?? '';
    if (kind === 'g') {
      const isWhole = this.#pushesGrants && FENCE.test(fence) && TIME.test(ends);
      const validForMs = isWhole ? this.#pushedGrantAge.untilMs(Number(ends)) : null;
      this.#events?.onGranted(id, validForMs === null ? null : { fence: BigInt(fence), validForMs });
    } else if (kind === 'e') this.#events?.onEvicted(id);
    else if (kind === 'l') this.#events?.onHandoff(name);
    else if (kind === 'o' || kind === 'h') this.#events?.onChanged(name, kind === 'o');
  }
}
