import type { ClaimRef, Mode, Waiter } from '../../store/store.ts';
import type { Instant } from '../../store/validity.ts';
import type { LockKeys } from './key.ts';
import type { Lease } from './lease.ts';
import type { HubWatching } from './watch-hub.ts';

export class Claim implements ClaimRef {
  readonly name: string;
  readonly id: string;
  readonly mode: Mode;
  readonly lock: LockKeys;
  readonly key: Buffer;
  /** Create revision: queue position and fence. 0 while the key is not known to exist. */
  revision = 0n;
  /** The revision of the last write to the key that this store knows of. */
  modRevision = 0n;
  lease: Lease;
  /** The leases that the key is or may be attached to. */
  readonly leases = new Set<Lease>();
  /** A request to move the key to another lease had no answer, and may still arrive. */
  mayMove = false;
  /** Woken while the claim waits. */
  waiter: Waiter | null = null;
  /** Sees the deletion of the key, also while the claim is held if it had to wait. */
  keyWatch: HubWatching | null = null;
  isGranted = false;
  /** When this store learned that the claim is granted, by the monotonic clock; `null`: not known. */
  grantedAtMs: number | null = null;
  /** The request that creates the key is pending. */
  isEntering = false;
  /** The claim ahead is gone, so this one is probably granted next. */
  isNext = false;
  /** Pending renewals. The claim's time is not over while one of them may extend it. */
  renewals = 0;
  /** The claim's own time. A claim that is not renewed ends with it, even if its lease lives on. */
  sent: Instant = { monotonicMs: 0, wallMs: 0 };
  validForMs = 0;

  constructor({ name, id }: ClaimRef, mode: Mode, lock: LockKeys, lease: Lease) {
    this.name = name;
    this.id = id;
    this.mode = mode;
    this.lock = lock;
    this.key = lock.claim(id, mode);
    this.lease = lease;
  }

  /** The lease counts as used from now on, so that it is not treated as empty. */
  addLease(lease: Lease): void {
    this.leases.add(lease);
    lease.claims.add(this);
  }

  moveTo(lease: Lease): void {
    this.leaveAll();
    this.lease = lease;
    this.addLease(lease);
  }

  leave(lease: Lease): void {
    this.leases.delete(lease);
    lease.claims.delete(this);
  }

  leaveAll(): void {
    for (const lease of this.leases) this.leave(lease);
  }

  /** The claim is given up although its key may exist: the key ends with its lease. */
  giveUp(): void {
    for (const lease of this.leases) lease.end();
  }

  endKeyWatch(): void {
    this.keyWatch?.cancel();
    this.keyWatch = null;
  }

  /** Sets the claim's own time, counted from the send of the request that the caller awaits. */
  trust(sent: Instant): number {
    this.sent = sent;
    this.validForMs = this.lease.validForMs(sent);
    return this.validForMs;
  }
}
