import type { Clock } from '../../clock.ts';
import { type HoldfastError, UnsupportedError } from '../../errors.ts';
import { onAbort } from '../../util/abort.ts';
import { settlesWithin } from '../../util/backoff.ts';
import { Batch } from '../shared/batch.ts';
import { storeClosed } from '../shared/store-closed.ts';
import type { RedisConnection } from './connection.ts';
import { clientEnded, failureOf, isNoScript, notSent, outOfTime } from './failure.ts';
import type { Script } from './script-batch.ts';
import { evictionPolicyIn, fieldsIn, isOlder, versionIn } from './server-info.ts';

export const VERSION_MIN = [6, 2] as const;
/**
 * The time limit of a call that has none: a little shorter than that of the core, so that the
 * caller learns why there is no connection.
 */
const OPEN_MS = 4_500;
/** How long the check of a server may take: without a bound, a lost reply would block the store. */
const CHECK_MS = 2_000;
/**
 * A client that is not ready gets this long to connect. Then a failed attempt is reported. Without
 * one, the state of the client is checked again, in case an event was missed.
 */
const CONNECT_MS = 750;
/** With this many calls of a batch abandoned and unanswered, further ones would not get a reply either. */
const ABANDONED_MAX = 64;

/** One command that shares no call of a script. */
interface Command {
  readonly name: string;
  readonly args: string[];
  /** In a Cluster, a command without keys goes to the node of this key. */
  readonly beside: string | undefined;
}

/**
 * Whether the client is connected, and the server is one that can be used; if not, why not. Commands
 * that are not worth batching are sent through it.
 */
export class ReadinessCheck {
  readonly connection: RedisConnection;
  readonly allowEviction: boolean;
  readonly #commands: Batch<Command, unknown>;
  readonly #clock: Clock;
  /** The value of `breaks` when the server was found usable; `null`: it has to be checked. */
  #checked: number | null = null;
  #closed = false;
  /** The run id of the server that was checked last; `null` if it is not known. */
  serverId: string | null = null;
  readonly #waiting = new Set<(refusal: HoldfastError | null) => void>();
  #opening = false;
  #isProbing = false;

  constructor(connection: RedisConnection, allowEviction: boolean, clock: Clock) {
    this.connection = connection;
    this.allowEviction = allowEviction;
    this.#clock = clock;
    this.#commands = new Batch<Command, unknown>({
      ...this.batchOptions(),
      itemsMax: 1,
      callsMax: Number.POSITIVE_INFINITY,
      send: async (commands) => {
        const replies = commands.map(({ name, args, beside }) => connection.send(name, args, beside));
        return (await Promise.all(replies)).map((value) => ({ value }));
      },
    });
  }

  /** What all batches of commands have in common. */
  batchOptions() {
    return {
      clock: this.#clock,
      abandonedMax: ABANDONED_MAX,
      sendsAtOnce: true,
      isReady: () => this.isOpen,
      whenReady: (callback: (refusal: HoldfastError | null) => void) => this.whenReady(callback),
      onNoAnswer: () => void this.#onNoAnswer(),
      errors: {
        notSent: () => outOfTime(false, this.connection),
        noAnswer: () => outOfTime(true, this.connection),
        failed: failureOf,
      },
    } as const;
  }

  /** A command had no reply in time. A PING shows whether it is slow or the server is silent. */
  async #onNoAnswer(): Promise<void> {
    const { silence, isReady } = this.connection;
    if (this.#isProbing || silence == null || !isReady) return;
    this.#isProbing = true;
    const answer = this.connection.send('ping', []);
    const isInTime = (): Promise<boolean> => settlesWithin(this.#clock, answer, silence.afterMs / 2);
    // In two halves: after a pause of this process, an answer is read before the second ends.
    const isAlive = (await isInTime()) || (await isInTime());
    this.#isProbing = false;
    if (!isAlive && !this.#closed) silence.reconnect();
  }

  get isOpen(): boolean {
    return !this.#closed && this.connection.isReady && this.#isChecked;
  }

  get #isChecked(): boolean {
    return this.#checked === this.connection.breaks;
  }

  /** Calls back once, with why commands cannot be sent, or `null`. */
  whenReady(callback: (refusal: HoldfastError | null) => void): void {
    this.#waiting.add(callback);
    if (this.#closed) this.#answer(storeClosed());
    else if (!this.#opening) void this.#open();
  }

  /** Resolves when commands can be sent; rejects with the reason why they cannot. */
  async untilReady(signal = this.#limit()): Promise<void> {
    if (this.isOpen) return;
    await new Promise<void>((resolve, reject) => {
      const callback = (refusal: HoldfastError | null): void => {
        stopListening();
        if (refusal === null) resolve();
        else reject(refusal);
      };
      const giveUp = (): void => {
        this.#waiting.delete(callback);
        reject(outOfTime(false, this.connection));
      };
      const stopListening = onAbort(signal, giveUp);
      if (signal.aborted) giveUp();
      else this.whenReady(callback);
    });
  }

  /** Resolves when the server has been reached, also if the store refuses to use it. */
  async untilConnected(signal: AbortSignal): Promise<void> {
    try {
      await this.untilReady(signal);
    } catch (error) {
      if (!this.connection.isReady) throw error;
    }
  }

  /** One command. `beside`: in a Cluster, a command without keys goes to the node of this key. */
  send(name: string, args: string[], signal = this.#limit(), beside?: string): Promise<unknown> {
    return this.#commands.add({ name, args, beside }, signal);
  }

  /** One script. */
  async run(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    const rest = [`${keys.length}`, ...keys, ...args];
    try {
      return await this.send('evalsha', [script.sha, ...rest], signal);
    } catch (error) {
      if (!isNoScript((error as Error).cause)) throw error;
      return await this.send('eval', [script.text, ...rest], signal);
    }
  }

  #limit(): AbortSignal {
    const controller = new AbortController();
    this.#clock.startTimer(OPEN_MS, () => controller.abort());
    return controller.signal;
  }

  assertNotClosed(): void {
    if (this.#closed) throw storeClosed();
  }

  close(): void {
    this.#closed = true;
    this.#answer(storeClosed());
  }

  #answer(refusal: HoldfastError | null): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const callback of waiting) callback(refusal);
  }

  async #open(): Promise<void> {
    this.#opening = true;
    const refusal = await this.#refusal();
    this.#opening = false;
    this.#answer(refusal);
  }

  async #refusal(): Promise<HoldfastError | null> {
    const { connection } = this;
    while (!this.#closed) {
      const { closedReason, lastError } = connection;
      if (closedReason !== null) return clientEnded(closedReason, lastError);
      if (connection.isReady) return this.#isChecked ? null : await this.#check();
      // A wrong password stays wrong for longer than a command waits.
      if (connection.isRefused)
        return notSent('the server has refused the login or the rights of the client', lastError);
      // The client may be connected to another server next.
      this.#checked = null;
      if (!(await this.#mayConnect())) return notSent('the client is not connected', connection.lastError);
    }
    return storeClosed();
  }

  /** Waits for an event of the client. False: its attempts to connect have failed so far. */
  #mayConnect(): Promise<boolean> {
    const { connection } = this;
    return new Promise((resolve) => {
      const timer = this.#clock.startTimer(CONNECT_MS, () => {
        stopListening();
        resolve(connection.isReady || connection.lastError === null);
      });
      const stopListening = connection.onceReady(() => {
        timer.cancel();
        resolve(true);
      });
    });
  }

  async #check(): Promise<HoldfastError | null> {
    const { breaks } = this.connection;
    const checking = this.#inspectServers().catch((error: unknown) =>
      notSent('the server could not be asked', failureOf(error)),
    );
    if (!(await settlesWithin(this.#clock, checking, CHECK_MS))) {
      void this.#onNoAnswer();
      return notSent('the server did not answer', this.connection.lastError);
    }
    const refusal = await checking;
    this.#checked = refusal === null ? breaks : null;
    return refusal;
  }

  async #inspectServers(): Promise<HoldfastError | null> {
    const servers = (await this.connection.servers?.()) ?? [this.connection];
    if (servers.length === 0) return notSent('no master has answered', this.connection.lastError);
    const refusals = await Promise.all(servers.map((server) => this.#inspect(server)));
    return refusals.find((refusal) => refusal !== null) ?? null;
  }

  async #inspect(server: RedisConnection): Promise<HoldfastError | null> {
    const { versionMin = VERSION_MIN } = this.connection;
    const info = fieldsIn(await infoOf(server));
    this.serverId = info.get('run_id') ?? null;
    const version = versionIn(info);
    if (version !== null && isOlder(version, versionMin)) {
      return new UnsupportedError(
        `Redis ${versionMin.join('.')} or newer is needed; this is ${version.join('.')}`,
      );
    }
    const policy = evictionPolicyIn(info);
    if (!this.allowEviction && policy !== null) {
      return new UnsupportedError(
        `This Redis may evict locks that are held (maxmemory-policy ${policy}), ` +
          'and then two can hold one lock. ' +
          'Set maxmemory-policy noeviction, or pass allowEviction: true to accept that',
      );
    }
    return null;
  }
}

async function infoOf(server: RedisConnection): Promise<string> {
  try {
    const sections = await Promise.all(['server', 'memory'].map((section) => server.send('info', [section])));
    return sections.map(String).join('\n');
  } catch (error) {
    // Without the right to send INFO, the server is assumed to be usable.
    if (error instanceof Error && error.message.startsWith('NOPERM')) return '';
    throw error;
  }
}
