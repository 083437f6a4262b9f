import type { Clock } from '../../clock.ts';
import { type HoldfastError, UnsupportedError } from '../../errors.ts';
import { storeClosed } from '../shared/store-closed.ts';
import type { RedisConnection } from './connection.ts';
import { clientEnded, failureOf, notSent } from './failure.ts';
import { evictionPolicyIn, fieldsIn, isOlder, versionIn } from './server-info.ts';

export const VERSION_MIN = [6, 2] as const;
/**
 * How long a call without a time limit waits for a connection. It is a little shorter than the time
 * limit of the core, so that the caller learns why there is no connection.
 */
const OPEN_MS = 4_500;
/**
 * How long the check of a server may take. Without a bound, one lost reply would block the store.
 */
const CHECK_MS = 2_000;
/**
 * A client that is not ready gets this long to connect. After that, a failed attempt such as a
 * refused connection is reported. Otherwise the state of the client is checked again, in case an
 * event was missed.
 */
const CONNECT_MS = 750;
/** With this many commands without a reply, further ones would not get a reply either. */
export const ABANDONED_MAX = 64;

/**
 * Whether commands can be sent: the client is connected, and the server is one that can be used.
 * Otherwise it says why not.
 */
export class ReadinessCheck {
  readonly connection: RedisConnection;
  readonly allowEviction: boolean;
  readonly #clock: Clock;
  /** The session whose server was found usable; `null`: none. */
  #checked: { readonly session: number | undefined } | null = null;
  #closed = false;
  readonly #waiting = new Set<(refusal: HoldfastError | null) => void>();
  #opening = false;
  #isProbing = false;
  #abandoned = 0;

  constructor(connection: RedisConnection, allowEviction: boolean, clock: Clock) {
    this.connection = connection;
    this.allowEviction = allowEviction;
    this.#clock = clock;
  }

  /**
   * A command had no reply in time. A PING shows whether the command is slow or the server is
   * silent.
   */
  onNoAnswer(): void {
    const { connection } = this;
    const silence = connection.silence ?? null;
    if (this.#isProbing || silence === null || !connection.isReady) return;
    this.#isProbing = true;
    const silent = (): void => {
      this.#isProbing = false;
      if (!this.#closed) silence.reconnect();
    };
    // In two halves: after a pause of this process, an answer that has arrived is read before the
    // second half ends.
    const halfMs = silence.afterMs / 2;
    let timer = this.#clock.startTimer(halfMs, () => {
      timer = this.#clock.startTimer(halfMs, silent);
    });
    const answered = (): void => {
      timer.cancel();
      this.#isProbing = false;
    };
    connection.send('ping', []).then(answered, answered);
  }

  /** The caller of this command has given up. The client keeps the command until its reply comes. */
  abandon(command: Promise<unknown>): void {
    this.onNoAnswer();
    this.#abandoned += 1;
    const settled = (): void => {
      this.#abandoned -= 1;
    };
    command.then(settled, settled);
  }

  /** Whether so many commands are without a reply that the client must not be given more. */
  get isSilent(): boolean {
    return this.#abandoned >= ABANDONED_MAX;
  }

  get isOpen(): boolean {
    return !this.#closed && this.connection.isReady && this.#isChecked;
  }

  get #isChecked(): boolean {
    return this.#checked !== null && this.#checked.session === this.connection.session;
  }

  /**
   * Calls back once: with `null` when commands can be sent, or with the reason why they cannot. The
   * result cancels that.
   */
  whenReady(callback: (refusal: HoldfastError | null) => void): () => void {
    if (this.#closed) callback(storeClosed());
    else {
      this.#waiting.add(callback);
      if (!this.#opening) {
        this.#opening = true;
        this.#proceed();
      }
    }
    return () => void this.#waiting.delete(callback);
  }

  /** The time limit of a call that has none. */
  limit(): AbortSignal {
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

  #proceed(): void {
    if (this.#closed) return;
    const { connection } = this;
    if (connection.closedReason !== null)
      this.#answer(clientEnded(connection.closedReason, connection.lastError));
    else if (connection.isReady && this.#isChecked) this.#answer(null);
    else if (connection.isReady) this.#check();
    // A wrong password stays wrong for longer than a command waits. The client keeps trying, and
    // the caller may try again too.
    else if (connection.isRefused)
      this.#answer(
        notSent('the server has refused the login or the rights of the client', connection.lastError),
      );
    else {
      const proceed = (): void => {
        stopListening();
        timer.cancel();
        // The client may be connected to another server now.
        this.#checked = null;
        this.#proceed();
      };
      const timer = this.#clock.startTimer(CONNECT_MS, () => {
        const { isReady, lastError } = connection;
        if (isReady || lastError === null) proceed();
        else {
          stopListening();
          this.#checked = null;
          this.#answer(notSent('the client is not connected', lastError));
        }
      });
      const stopListening = connection.onceReady(proceed);
    }
  }

  #check(): void {
    let isOver = false;
    const { session } = this.connection;
    const end = (refusal: HoldfastError | null): void => {
      if (isOver) return;
      isOver = true;
      timer.cancel();
      this.#checked = refusal === null ? { session } : null;
      this.#answer(refusal);
    };
    const timer = this.#clock.startTimer(CHECK_MS, () => {
      this.onNoAnswer();
      end(notSent('the server did not answer', this.connection.lastError));
    });
    this.#inspectServers().then(end, (error: unknown) =>
      end(notSent('the server could not be asked', failureOf(error))),
    );
  }

  async #inspectServers(): Promise<HoldfastError | null> {
    const servers = (await this.connection.servers?.()) ?? [this.connection];
    const refusals = await Promise.all(servers.map((server) => this.#inspect(server)));
    return refusals.find((refusal) => refusal !== null) ?? null;
  }

  async #inspect(server: RedisConnection): Promise<HoldfastError | null> {
    const { versionMin = VERSION_MIN } = this.connection;
    const info = fieldsIn(await infoOf(server));
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

  #answer(refusal: HoldfastError | null): void {
    this.#opening = false;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const callback of waiting) callback(refusal);
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
