import type { Clock } from '../../clock.ts';
import { ClosedError, type HoldfastError, UnsupportedError } from '../../errors.ts';
import { clientEnded, failureOf, notSent } from './failure.ts';
import type { Link } from './link.ts';

const VERSION_MIN = [6, 2] as const;
/** How long somebody without a limit of their own waits for a connection: a little less than the core does, so that they learn why there is none. */
const OPEN_MS = 4_500;
/** How long a server may take to say that it is there. */
const PROBE_MS = 1_000;

/** Lets commands through while the client is connected to a server that can be used, and says why when they cannot go. */
export class Gate {
  readonly link: Link;
  readonly #allowEviction: boolean;
  readonly #clock: Clock;
  #checked = false;
  #closed = false;
  #waiting: Array<(refusal: HoldfastError | null) => void> = [];
  #opening = false;
  #isProbing = false;

  constructor(link: Link, allowEviction: boolean, clock: Clock) {
    this.link = link;
    this.#allowEviction = allowEviction;
    this.#clock = clock;
  }

  /** A command had no answer in time. Is that the command, or the connection? */
  onNoAnswer(): void {
    if (this.#isProbing || this.link.onSilence === undefined || !this.link.isReady) return;
    this.#isProbing = true;
    const timer = this.#clock.startTimer(PROBE_MS, () => {
      this.#isProbing = false;
      if (!this.#closed) this.link.onSilence?.();
    });
    const answered = (): void => {
      timer.cancel();
      this.#isProbing = false;
    };
    this.link.send('ping', []).then(answered, answered);
  }

  get isOpen(): boolean {
    return this.#checked && this.link.isReady && !this.#closed;
  }

  /** Calls back when commands can go, or with the reason why they cannot. */
  onceOpen(callback: (refusal: HoldfastError | null) => void): void {
    if (this.#closed) {
      callback(new ClosedError('This store is closed'));
      return;
    }
    this.#waiting.push(callback);
    if (this.#opening) return;
    this.#opening = true;
    this.#proceed();
  }

  /** The limit of whoever has brought none. */
  limit(): AbortSignal {
    const controller = new AbortController();
    this.#clock.startTimer(OPEN_MS, () => controller.abort());
    return controller.signal;
  }

  assertNotClosed(): void {
    if (this.#closed) throw new ClosedError('This store is closed');
  }

  close(): void {
    this.#closed = true;
    this.#answer(new ClosedError('This store is closed'));
  }

  #proceed(): void {
    if (this.#closed) return;
    const { link } = this;
    if (link.whyClosed !== null) this.#answer(clientEnded(link.whyClosed, link.lastError));
    else if (link.isReady && this.#checked) this.#answer(null);
    else if (link.isReady) this.#check();
    // A password that is wrong is so for longer than a command waits. The client tries on, and so may whoever asked.
    else if (link.isRefused) this.#answer(notSent('the server has turned the client away', link.lastError));
    else {
      link.onceReady(() => {
        // Behind it may be another server now.
        this.#checked = false;
        this.#proceed();
      });
    }
  }

  #check(): void {
    this.#inspectServers().then(
      (refusal) => {
        this.#checked = refusal === null;
        this.#answer(refusal);
      },
      (error: unknown) => this.#answer(notSent('the server could not be asked', failureOf(error))),
    );
  }

  async #inspectServers(): Promise<HoldfastError | null> {
    const servers = (await this.link.servers?.()) ?? [this.link];
    const refusals = await Promise.all(servers.map((server) => this.#inspect(server)));
    return refusals.find((refusal) => refusal !== null) ?? null;
  }

  async #inspect(server: Link): Promise<HoldfastError | null> {
    const { versionMin = VERSION_MIN } = this.link;
    const info = await infoOf(server);
    const version = /^redis_version:(\d+)\.(\d+)/m.exec(info);
    if (version !== null && isOlder([Number(version[1]), Number(version[2])], versionMin)) {
      return new UnsupportedError(
        `Redis ${versionMin.join('.')} or newer is needed; this is ${version[1]}.${version[2]}`,
      );
    }
    const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? 'noeviction';
    const isBounded = /^maxmemory:[1-9]/m.test(info);
    if (!this.#allowEviction && isBounded && policy !== 'noeviction') {
      return new UnsupportedError(
        `This Redis may evict locks that are held (maxmemory-policy ${policy}), and then two can hold one lock. ` +
          'Set maxmemory-policy noeviction, or pass allowEviction: true to accept that',
      );
    }
    return null;
  }

  #answer(refusal: HoldfastError | null): void {
    this.#opening = false;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const callback of waiting) callback(refusal);
  }
}

async function infoOf(server: Link): Promise<string> {
  try {
    const sections = await Promise.all(['server', 'memory'].map((section) => server.send('info', [section])));
    return sections.map(String).join('\n');
  } catch (error) {
    // A user who may not ask is not kept out: nothing is known against the server.
    if (error instanceof Error && error.message.startsWith('NOPERM')) return '';
    throw error;
  }
}

function isOlder(version: readonly [number, number], min: readonly [number, number]): boolean {
  return version[0] < min[0] || (version[0] === min[0] && version[1] < min[1]);
}
