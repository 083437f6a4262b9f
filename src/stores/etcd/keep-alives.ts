import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { type Instant, instant } from '../../store/validity.ts';
import type { Calls } from './calls.ts';
import type { LeaseReply, Stream } from './client.ts';

/** The answer to a keep-alive. It counts once a transaction confirms it (`Lease.confirm`). */
export interface Alive {
  /** When the keep-alive was sent, or a little earlier. */
  readonly sent: Instant;
  /** 0: there is no such lease. */
  readonly ttlMs: number;
  readonly term: number;
}

/** Requests within this time after another one share its answer. */
const SHARE_MS = 50;
const ATTEMPTS_MAX = 2;

/**
 * Sends keep-alives, each over a stream that ends with the answer: an open stream would keep the
 * process alive. If a member does not answer in time, another one is asked: the first may have
 * passed the request on to a leader that is gone.
 */
export class KeepAlives {
  readonly #calls: Calls;
  readonly #clock: Clock;
  readonly #pending = new Map<string, { readonly sent: Instant; readonly answer: Promise<Alive> }>();

  constructor(calls: Calls, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
  }

  /** `limitMs`: the time limit of each of two attempts. */
  send(leaseId: string, limitMs: number): Promise<Alive> {
    const sent = instant(this.#clock);
    const shared = this.#pending.get(leaseId);
    if (shared !== undefined && sent.monotonicMs - shared.sent.monotonicMs < SHARE_MS) return shared.answer;
    const pending = { sent, answer: this.#try(leaseId, limitMs) };
    this.#pending.set(leaseId, pending);
    const forget = (): void => {
      if (this.#pending.get(leaseId) === pending) this.#pending.delete(leaseId);
    };
    pending.answer.then(forget, forget);
    return pending.answer;
  }

  async #try(leaseId: string, limitMs: number): Promise<Alive> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#ask(leaseId, limitMs);
      } catch (error) {
        if (attempt < ATTEMPTS_MAX) continue;
        throw new StoreError('A lease could not be kept alive', { cause: error, applied: 'unknown' });
      }
    }
  }

  #ask(leaseId: string, limitMs: number): Promise<Alive> {
    const sent = instant(this.#clock);
    return new Promise((resolve, reject) => {
      let stream: Stream<{ ID: string }, LeaseReply> | null = null;
      let isOver = false;
      const fail = (error: unknown): void => {
        if (isOver) return;
        isOver = true;
        timer.cancel();
        stream?.cancel();
        reject(error);
      };
      const timer = this.#clock.startTimer(limitMs, () => fail(new Error('no answer in time')));
      this.#calls.keepAlive().then((opened) => {
        stream = opened;
        opened.on('error', fail);
        opened.on('end', () => fail(new Error('the stream ended')));
        opened.on('data', ({ TTL, header }) => {
          isOver = true;
          timer.cancel();
          opened.end();
          resolve({ sent, ttlMs: Math.max(Number(TTL), 0) * 1_000, term: Number(header.raft_term) });
        });
        if (isOver) opened.cancel();
        else opened.write({ ID: leaseId });
      }, fail);
    });
  }
}
