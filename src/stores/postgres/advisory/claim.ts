import type { ClaimRequest } from '../../../store/store.ts';

/** A claim of this process. */
export class Claim {
  readonly name: string;
  readonly id: string;
  readonly mode: 'exclusive' | 'shared';
  note: string;
  /** Set when granted. */
  fence: bigint | null = null;
  grantedAtMs = 0;
  /** When it last asked, if it waits: who never asks again has gone. */
  askedAtMs: number;
  /** Its request is on its way. */
  asking: Promise<unknown> | null = null;

  constructor(request: ClaimRequest, nowMs: number) {
    this.name = request.name;
    this.id = request.id;
    this.mode = request.mode.kind === 'shared' ? 'shared' : 'exclusive';
    this.note = request.note;
    this.askedAtMs = nowMs;
  }
}
