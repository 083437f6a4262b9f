import type { ClaimRequest, Waiter } from '../../../store/store.ts';
import { SharedPromise } from './shared-promise.ts';

/** A claim of this process. */
export class Claim {
  readonly name: string;
  readonly id: string;
  readonly mode: 'exclusive' | 'shared';
  note: string;
  /** Woken when the claim should be asked for again and, once it is held, when it may be lost. */
  waiter: Waiter | undefined;
  /** Set when granted. */
  fence: bigint | null = null;
  grantedAtMs = 0;
  /** When the caller last asked. A queued claim that is not asked for again is dropped. */
  askedAtMs = 0;
  /** The server's answer, while a request of this claim is pending. */
  pending: Promise<string> | null = null;
  #shared: { readonly pending: Promise<string>; readonly work: SharedPromise<string> } | null = null;

  constructor(request: ClaimRequest) {
    this.name = request.name;
    this.id = request.id;
    this.mode = request.mode.kind === 'shared' ? 'shared' : 'exclusive';
    this.note = request.note;
  }

  /** The pending answer, for another caller, which may give up before the answer comes. */
  follow(pending: Promise<string>, signal?: AbortSignal): Promise<string> {
    if (this.#shared?.pending !== pending) this.#shared = { pending, work: new SharedPromise(pending) };
    return this.#shared.work.wait(signal);
  }
}
