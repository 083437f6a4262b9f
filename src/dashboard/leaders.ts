import type { Core } from '../core.ts';
import type { Locks } from '../locks.ts';
import type { LeaderList, LeaderSummary } from './api.ts';
import { claimSummary } from './claim-summary.ts';
import type { LockReads } from './lock-reads.ts';

const ELECTIONS_MAX = 200;

/**
 * The elections in which this process stands or has led. In the store an election is a mutex like
 * any other, so the elections of other processes are among the locks.
 */
export class Leaders {
  readonly #core: Core;
  readonly #reads: LockReads;
  /** Elections that candidates of this process have won, the latest last. */
  readonly #won = new Set<string>();
  readonly #stopListening: () => void;

  constructor(core: Core, locks: Locks, reads: LockReads) {
    this.#core = core;
    this.#reads = reads;
    this.#stopListening = locks.on('leader', ({ name }) => {
      this.#won.delete(name);
      this.#won.add(name);
      for (const oldest of this.#won) {
        if (this.#won.size <= ELECTIONS_MAX) break;
        this.#won.delete(oldest);
      }
    });
  }

  /** Rejects when the store fails. */
  async list(): Promise<LeaderList> {
    const standing = [...this.#core.stoppables].flatMap(({ serves }) =>
      serves?.kind === 'election' ? [serves.name] : [],
    );
    const names = [...new Set([...standing, ...this.#won])].slice(0, ELECTIONS_MAX).sort();
    const leaders = await Promise.all(names.map((name) => this.#read(name)));
    return { takenAtMs: Math.round(this.#core.clock.wallMs()), leaders };
  }

  close(): void {
    this.#stopListening();
  }

  async #read(name: string): Promise<LeaderSummary> {
    const { view, readAtMs } = await this.#reads.recent(name, 'lock');
    const [holder] = view.holders;
    const leader = holder === undefined ? null : claimSummary(holder, readAtMs, null);
    return {
      name,
      leader,
      candidateCount: view.holders.length + view.waiters.length,
      // By the claim: the owner may be set to the same text in several processes.
      isHere: this.#core.renewals.holds.some((held) => held.ref.id === leader?.id),
    };
  }
}
