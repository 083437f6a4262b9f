import type { Clock, Timer } from '../../clock.ts';
import { backoff } from '../../hold/pause.ts';
import { Connection } from './connection.ts';
import type { Dial } from './wire.ts';

/** What a store does with what it hears. */
export interface Hearing {
  /** This claim fits now. */
  onCalled(name: string, id: string): void;
  /** This observed lock has changed. */
  onChanged(name: string): void;
  /** The connection came or went, so something may have been missed. */
  onBreak(): void;
  /** Whether anybody waits for anything. */
  isWanted(): boolean;
}

/** How long to wait for the connection before going on without: wake-ups are a hint, and asking again is the guarantee. */
const CONNECT_MS = 1_000;
const RETRY = { min: 100, max: 5_000 };
/** A dead link never tells: a sign of life is asked for this often, and may take so long. */
const BEAT_MS = 5_000;
const ANSWER_MS = 3_000;
/** So many signs of life in a row that nobody needed are the last. */
const IDLE_BEATS = 6;
/** Behind a pooler: how often two idle connections are compared, and how long a notification may take. */
const PROBES = 8;
const PROBE_MS = 1_000;
/** As `call_next` of `migrations/` spells it: who listens holds this lock, so that the server can tell who does not any more. */
const ALIVE_SALT = 4701;

/** The one connection of a store that listens, made when somebody waits and closed when nobody has for a while. */
export class Listener {
  /** Ours alone. What is sent here says for which claim it is. */
  readonly channel: string;
  readonly #dial: Dial;
  readonly #clock: Clock;
  readonly #hearing: Hearing;
  #connection: Connection | null = null;
  #isOpening = false;
  #isUp = false;
  #isClosed = false;
  #isDeaf = false;
  /** It did not come up in time once, so nobody waits for it again; when it does come up, everybody is woken. */
  #isLate = false;
  #failures = 0;
  #timer: Timer | null = null;
  #onReady: Array<() => void> = [];
  #onProbe: (() => void) | null = null;

  constructor(dial: Dial, clock: Clock, hearing: Hearing) {
    this.#dial = dial;
    this.#clock = clock;
    this.#hearing = hearing;
    this.channel = `holdfast_${Math.floor(clock.random() * 2 ** 47).toString(36)}`;
  }

  /** Nothing can be heard here, now or later: behind a pooler that shares connections between transactions. */
  get isDeaf(): boolean {
    return this.#isDeaf;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** Nothing stands between us and the server that could keep a notification to itself. */
  get isDirect(): boolean {
    return this.#connection?.isDirect === true;
  }

  /** Resolves when it listens, or after a while in any case. */
  async start(): Promise<void> {
    if (this.#isUp || this.#isDeaf || this.#isClosed) return;
    if (!this.#isOpening && this.#timer === null) void this.#open();
    if (this.#isLate) return;
    await new Promise<void>((resolve) => {
      const timer = this.#clock.startTimer(CONNECT_MS, () => {
        this.#isLate = true;
        resolve();
      });
      this.#onReady.push(() => {
        timer.cancel();
        resolve();
      });
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    this.#isUp = false;
    this.#release();
    await this.#connection?.close();
  }

  async #open(): Promise<void> {
    this.#isOpening = true;
    this.#timer = null;
    try {
      let connection: Connection | null = null;
      connection = await this.#connect(() => connection !== null && this.#onBroken(connection));
      this.#connection = connection;
      connection.setKeepAlive(false);
      if (connection.isDirect || (await this.#isHeardThroughPooler(connection)))
        await this.#listen(connection);
      else await this.#setDeaf(connection);
    } catch {
      this.#onBroken(this.#connection);
    } finally {
      this.#isOpening = false;
      if (this.#isClosed) void this.#connection?.close();
    }
  }

  #connect(onClose: () => void): Promise<Connection> {
    return Connection.open(this.#dial, {
      clock: this.#clock,
      onClose,
      onNotification: (channel, payload) => this.#onMessage(channel, payload),
    });
  }

  async #listen(connection: Connection): Promise<void> {
    await connection.run({ text: `LISTEN "${this.channel}"` });
    await connection.run({
      text: `SELECT pg_advisory_lock(hashtextextended('${this.channel}', ${ALIVE_SALT}))::text`,
    });
    if (this.#isClosed || !connection.isOpen) return;
    this.#failures = 0;
    this.#isUp = true;
    this.#isLate = false;
    this.#beat(connection);
    this.#release();
    this.#hearing.onBreak();
  }

  /**
   * A pooler that hands out server connections by the transaction gives two idle clients the same one, or one client another than before where others are busy, and then
   * listening is of no use. One that hands them out by the session never does, and lets a notification through.
   */
  async #isHeardThroughPooler(connection: Connection): Promise<boolean> {
    const other = await this.#connect(() => {});
    try {
      const text = 'SELECT pg_backend_pid()::text';
      const pidOf = async (each: Connection): Promise<string | null> =>
        (await each.run({ text }))[0]?.[0] ?? null;
      const own = await pidOf(connection);
      for (let probe = 0; probe < PROBES; probe += 1) {
        if ((await pidOf(other)) === own || (await pidOf(connection)) !== own) return false;
      }
      await connection.run({ text: `LISTEN "${this.channel}"` });
      const heard = new Promise<boolean>((resolve) => {
        const timer = this.#clock.startTimer(PROBE_MS, () => resolve(false));
        this.#onProbe = () => {
          timer.cancel();
          resolve(true);
        };
      });
      await other.run({ text: `SELECT pg_notify('${this.channel}', 'p')::text` });
      return (await heard) && (await pidOf(connection)) === own;
    } finally {
      this.#onProbe = null;
      await other.close();
    }
  }

  async #setDeaf(connection: Connection): Promise<void> {
    this.#isDeaf = true;
    this.#release();
    warnOfPolling();
    await connection.close();
  }

  #beat(connection: Connection, idle = 0): void {
    this.#timer = this.#clock.startTimer(BEAT_MS, () => {
      const isWanted = this.#hearing.isWanted();
      if (!isWanted && idle + 1 >= IDLE_BEATS) this.#rest(connection);
      else
        connection.run({ text: 'SELECT' }, ANSWER_MS).then(
          () =>
            this.#connection === connection && this.#isUp && this.#beat(connection, isWanted ? 0 : idle + 1),
          () => this.#onBroken(connection),
        );
    });
  }

  /** Until somebody waits again. */
  #rest(connection: Connection): void {
    this.#connection = null;
    this.#timer = null;
    this.#isUp = false;
    void connection.close();
  }

  #onBroken(connection: Connection | null): void {
    if (this.#isClosed || this.#connection !== connection) return;
    this.#connection = null;
    connection?.destroy();
    this.#timer?.cancel();
    const wasUp = this.#isUp;
    this.#isUp = false;
    this.#timer = null;
    if (!this.#hearing.isWanted()) return;
    this.#timer = this.#clock.startTimer(backoff(this.#clock, this.#failures++, RETRY), () => {
      if (!this.#isOpening) void this.#open();
    });
    if (wasUp) this.#hearing.onBreak();
  }

  #release(): void {
    for (const resolve of this.#onReady.splice(0)) resolve();
  }

  #onMessage(channel: string, payload: string): void {
    if (channel !== this.channel) return;
    const rest = payload.slice(1);
    if (payload[0] === 'p') this.#onProbe?.();
    else if (payload[0] === 'o') this.#hearing.onChanged(rest);
    else if (payload[0] === 'g') {
      const at = rest.indexOf('\n');
      this.#hearing.onCalled(rest.slice(0, at), rest.slice(at + 1));
    }
  }
}

let hasWarned = false;

/** Said once in a process, where an application can hear it, print it or leave it out: stores do not log. */
function warnOfPolling(): void {
  if (hasWarned) return;
  hasWarned = true;
  process.emitWarning(
    'Holdfast is connected to PostgreSQL through a pooler that shares connections between transactions. LISTEN does not work there, so waiters poll.',
    { type: 'HoldfastWarning', code: 'HOLDFAST_POLLING' },
  );
}
