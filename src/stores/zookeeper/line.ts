import { agree, fits, weightOf } from '../../store/grant-rule.ts';
import type { Mode } from '../../store/store.ts';
import type { Children } from './calls.ts';
import { type NodeName, parseNode } from './node-name.ts';

export type Verdict =
  | { readonly granted: true }
  /** `behind`: the node that has to go first; `null` when several can make room. */
  | { readonly granted: false; readonly behind: string | null };

/** A lock's line as it was when its children were read. Read once, judged for as many claims as asked. */
export class Line {
  readonly claims: readonly NodeName[];
  /** The last transaction that changed it. */
  readonly zxid: bigint;
  readonly #places = new Map<string, number>();
  readonly #ids = new Set<string>();
  readonly #twice = new Set<string>();

  constructor({ names, zxid }: Children) {
    this.zxid = zxid;
    const claims = names.flatMap((name) => parseNode(name) ?? []);
    // The number has 32 bits and starts again below zero: what counts is the way round that is shorter.
    this.claims = claims.sort((a, b) => (a.place - b.place) | 0);
    for (const [at, { id, session }] of this.claims.entries()) {
      const key = `${session}\n${id}`;
      if (!this.#places.has(key)) this.#places.set(key, at);
      if (this.#ids.has(id)) this.#twice.add(id);
      this.#ids.add(id);
    }
  }

  /** Where the claim stands; -1 when it does not. When it has been entered twice, the first counts. */
  placeOf(id: string, session: string): number {
    return this.#places.get(`${session}\n${id}`) ?? -1;
  }

  /** Are there several nodes with this id? */
  hasTwice(id: string): boolean {
    return this.#twice.has(id);
  }

  /** The mode that a claim at this place cannot stand beside: that of the first in line. */
  disagreement(at: number): Mode | null {
    const [first, own] = [this.claims[0], this.claims[at]];
    if (at === 0 || first === undefined || own === undefined) return null;
    return agree(first.mode, own.mode) ? null : first.mode;
  }

  judge(at: number): Verdict {
    const mode = this.claims[at]?.mode ?? { kind: 'exclusive' };
    if (mode.kind === 'permits') return this.#judgePermits(at, mode);
    let ahead = at - 1;
    if (mode.kind === 'shared') while (this.claims[ahead]?.mode.kind === 'shared') ahead -= 1;
    const behind = this.claims[ahead];
    return behind === undefined ? { granted: true } : { granted: false, behind: behind.node };
  }

  #judgePermits(at: number, mode: Mode & { kind: 'permits' }): Verdict {
    let weight = 0;
    for (let ahead = 0; ahead < at; ahead += 1) {
      const claim = this.claims[ahead];
      if (claim === undefined) break;
      // What disagrees is about to be told so and to leave; until then nothing fits beside it.
      weight += agree(claim.mode, mode) ? weightOf(claim.mode) : mode.of;
      if (!fits(weight, mode)) return { granted: false, behind: null };
    }
    return { granted: true };
  }
}
