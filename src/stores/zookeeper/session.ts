import type { Clock, Timer } from '../../clock.ts';
import { ClosedError, StoreError } from '../../errors.ts';
import { onAbort } from '../../hold/abort.ts';
import { type Instant, instant } from '../../hold/validity.ts';
import { DEFAULTS } from '../../options.ts';
import { errorText } from '../error-text.ts';
import { Calls } from './calls.ts';
import { type RawClient, STATE } from './client.ts';
import { Gate } from './gate.ts';
import {
  closeForGood,
  connectOnce,
  dropLink,
  forgetError,
  forgetPartialPackets,
  forgetWatch,
  guardAnswers,
  isClosed,
  keepProcessAlive,
  lastError,
  onClosing,
  showAnswers,
  showErrors,
} from './internals.ts';
import { Liveness } from './liveness.ts';
import { Pulse } from './pulse.ts';
import { Vacancies } from './vacancies.ts';
import { WatchHub } from './watch-hub.ts';
import { Writes } from './writes.ts';

const CLOSE_MS = 1_000;
/** The client library sends a ping when a third of the time-out has passed in silence. */
const PING_SHARE = 1 / 3;

/** Why a session is over. */
type End = 'expired' | 'refused' | 'closed';

const ENDS: Readonly<Record<End, string>> = {
  expired: 'The session has expired',
  refused: 'ZooKeeper has refused the login',
  closed: 'The client has been closed',
};

/** For one that its owner has closed, the cause says to whoever would try again that nobody listens any more. */
function whyOver(end: End): StoreError {
  const cause = end === 'closed' ? new ClosedError(ENDS.closed) : undefined;
  return new StoreError(ENDS[end], { applied: 'no', cause });
}

/** The sessions of clients that were handed in, for all stores that use them. */
const shared = new WeakMap<RawClient, Set<Session>>();

/** One client, and so one session: when that has expired, the client is of no more use. All claims of a store share it, and so do all stores that were given the same client. */
export class Session {
  readonly #client: RawClient;
  readonly #clock: Clock;
  readonly #isOurs: boolean;
  readonly #startedAt: Instant;
  readonly #liveness: Liveness;
  readonly #pulse: Pulse;
  readonly #waiting = new Set<() => void>();
  readonly #users = new Set<(session: Session) => void>();
  readonly #stopListening: () => void;
  #isConnected = false;
  /** Whatever connection comes next was begun after this. */
  #disconnectedAt: Instant;
  #wasConnected = false;
  #end: End | null = null;
  /** In hexadecimal; empty until it is known. */
  id = '';
  readonly calls: Calls;
  readonly writes: Writes;
  readonly hub: WatchHub;
  readonly gate: Gate;
  readonly vacancies = new Vacancies();
  /** How often the connection has changed. */
  connection = 0;

  /** The session of a client that stays its owner's. */
  static of(client: RawClient, clock: Clock): Session {
    const found = shared.get(client) ?? new Set<Session>();
    shared.set(client, found);
    for (const session of found) if (session.#clock === clock) return session;
    const session = new Session(client, false, clock);
    found.add(session);
    return session;
  }

  /** `isOurs`: the client was made for one store, which connects and closes it. */
  constructor(client: RawClient, isOurs: boolean, clock: Clock) {
    this.#client = client;
    this.#isOurs = isOurs;
    this.#clock = clock;
    this.#startedAt = instant(clock);
    this.#disconnectedAt = this.#startedAt;
    this.#liveness = new Liveness(clock);
    this.calls = new Calls(client, clock, {
      onHeard: (sent, isWrite) => this.#liveness.heard(sent, isWrite),
      onBusy: (isBusy) => {
        if (isOurs) keepProcessAlive(client, isBusy);
      },
    });
    this.gate = new Gate(
      clock,
      () => this.#isConnected,
      () => this.#liveness.timeoutMs,
    );
    this.writes = new Writes(this.calls, this.vacancies);
    this.hub = new WatchHub(this.calls, this.gate, client);
    const beat = async (): Promise<void> => void (await this.calls.exists('/'));
    this.#pulse = new Pulse(clock, this.#liveness, beat, () => this.#dropLink());
    guardAnswers(client);
    showAnswers(client);
    showErrors(client);
    const stops = [forgetPartialPackets(client), onClosing(client, () => this.#onClosing())];
    this.#stopListening = () => {
      for (const stop of stops) stop();
    };
    client.on('state', this.#onState);
    if (isOurs) connectOnce(client);
    if (client.getState().code === STATE.connected) this.#onConnected();
  }

  /** `tell` is called after every reconnect, and when the session is over. The result ends the use of it, and the session with its last user. */
  use(tell: (session: Session) => void): () => Promise<void> {
    this.#users.add(tell);
    return async () => {
      if (this.#users.delete(tell) && this.#users.size === 0) await this.#close();
    };
  }

  get isOver(): boolean {
    return this.#end !== null;
  }

  /** Requests can be sent. */
  get isUsable(): boolean {
    return this.#isConnected && !this.isOver;
  }

  /** Throws when its owner has closed the client: no other is made then. */
  assertNotClosed(): void {
    if (this.#end === 'closed') throw whyOver('closed');
  }

  /** What is left of the session, counted from then. */
  leftMs(from: Instant): number {
    return this.isOver ? 0 : this.#liveness.leftMs(from);
  }

  /**
   * Resolves when requests can be sent. Nothing is handed to the client before: it would keep them and send them whenever it gets through, long after whoever asked has given up. Rejects with `applied: 'no'` when that
   * takes too long, or when the session is over.
   */
  async ready(signal: AbortSignal | undefined): Promise<void> {
    if (!this.#isConnected && !this.isOver) await this.#connected(signal);
    if (this.#isConnected) return;
    if (this.#end !== null) throw whyOver(this.#end);
    const cause = lastError(this.#client);
    const why = cause === undefined ? '' : `: ${errorText(cause)}`;
    throw new StoreError(`No member of ZooKeeper can be reached${why}`, { applied: 'no', cause });
  }

  #tell(): void {
    for (const tell of [...this.#users]) tell(this);
  }

  /** Leaves the client to its owner, or ends it and with it the session. */
  async #close(): Promise<void> {
    shared.get(this.#client)?.delete(this);
    this.#pulse.stop();
    const closed = this.#isOurs && this.#isConnected ? this.#lost() : Promise.resolve();
    if (this.#isOurs && !this.isOver) closeForGood(this.#client);
    await closed;
    this.#client.removeListener('state', this.#onState);
    this.#stopListening();
    this.#forgetWatches();
    this.#over('closed');
    // The client waits for the answer to its farewell for ever, and keeps the process alive.
    if (this.#isOurs) dropLink(this.#client);
  }

  #dropLink(): void {
    if (dropLink(this.#client)) this.#disconnectedAt = instant(this.#clock);
  }

  #connected(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      let timer: Timer | null = null;
      let stop = (): void => {};
      const done = (): void => {
        timer?.cancel();
        stop();
        this.#waiting.delete(done);
        resolve();
      };
      if (signal?.aborted === true) {
        resolve();
        return;
      }
      this.#waiting.add(done);
      // A client that its owner has closed meanwhile keeps the process alive no more, and somebody awaits this.
      timer = this.#clock.startTimer(DEFAULTS.commandMs, done, { keepAlive: true });
      if (signal !== undefined) stop = onAbort(signal, done);
    });
  }

  async #lost(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = this.#clock.startTimer(CLOSE_MS, resolve, { keepAlive: true });
      this.#client.on('state', ({ code }) => {
        if (code === STATE.connected) return;
        timer.cancel();
        resolve();
      });
    });
  }

  readonly #onState = ({ code }: { readonly code: number }): void => {
    if (this.isOver) return;
    if (code === STATE.connected) this.#onConnected();
    else if (code === STATE.expired) this.#over('expired');
    else if (code === STATE.authFailed) this.#over('refused');
    else if (code === STATE.disconnected) this.#onDisconnected();
  };

  /** While it is connected, it says goodbye first and tells of it. */
  #onClosing(): void {
    if (!this.#isConnected) this.#over('closed');
  }

  #onConnected(): void {
    forgetError(this.#client);
    const timeoutMs = this.#client.getSessionTimeout();
    this.id = this.#client.getSessionId().readBigUInt64BE().toString(16);
    if (!this.#wasConnected) this.#liveness.begin(this.#knownSince(timeoutMs), timeoutMs);
    else this.#liveness.reopen(this.#disconnectedAt);
    this.#liveness.timeoutMs = timeoutMs;
    this.#isConnected = true;
    this.connection += 1;
    this.#pulse.start(timeoutMs, true);
    const isAgain = this.#wasConnected;
    this.#wasConnected = true;
    for (const done of [...this.#waiting]) done();
    if (isAgain) this.#tell();
  }

  /** A session of our own began after we asked for it. One that we are given has been kept alive by pings until now. */
  #knownSince(timeoutMs: number): Instant {
    if (this.#isOurs) return this.#startedAt;
    const agoMs = timeoutMs * PING_SHARE;
    const { monotonicMs, wallMs } = this.#startedAt;
    return { monotonicMs: monotonicMs - agoMs, wallMs: wallMs - agoMs };
  }

  #onDisconnected(): void {
    this.#isConnected = false;
    this.#disconnectedAt = instant(this.#clock);
    this.connection += 1;
    this.#forgetWatches();
    this.#pulse.start(this.#client.getSessionTimeout(), false);
    // The client says first that it is disconnected and then, without a word, that it is closed for good.
    process.nextTick(() => {
      if (isClosed(this.#client)) this.#over('closed');
    });
  }

  #forgetWatches(): void {
    this.hub.reset();
    for (const [lock, { broken }] of this.vacancies.reset()) forgetWatch(this.#client, lock, broken);
  }

  #over(end: End): void {
    if (this.isOver) return;
    this.#end = end;
    this.#isConnected = false;
    this.#pulse.stop();
    // Of no more use to anybody; by itself it would wait for the server to hang up.
    if (end !== 'closed') dropLink(this.#client);
    for (const done of [...this.#waiting]) done();
    this.#tell();
  }
}
