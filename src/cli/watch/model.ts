import type { Key } from 'node:readline';
import type { Use } from '../../use.ts';
import type { ClaimView, LockView } from '../../view.ts';
import { filtered, keyOf, type Row, rowsOf, SORTS, type Sort, sorted } from './rows.ts';
import type { Scan } from './scanner.ts';

export type KeyPress = Key & { readonly text: string };

export interface Eviction {
  readonly name: string;
  readonly use: Use;
  /** As it was shown to the person who confirmed. */
  readonly claim: ClaimView;
  /** In the queue, from 1 on; `null`: the claim holds the lock. */
  readonly position: number | null;
}

/** What a key asks of the program. */
export type Action =
  | { readonly kind: 'quit' }
  | { readonly kind: 'interrupt' }
  | { readonly kind: 'suspend' }
  | { readonly kind: 'evict'; readonly eviction: Eviction };

/** What the screen shows besides a question. */
type Page = 'locks' | 'lock' | 'help';

/** The state behind the screen: what was read, what is selected, what is asked. */
export class Model {
  page: Page = 'locks';
  sort: Sort = 'name';
  isReversed = false;
  filter = '';
  /** The filter is being typed. */
  isTyping = false;
  /** Waits for a yes or a no. */
  question: Eviction | null = null;
  /** What became of the last eviction. */
  message = '';
  /** Why the store does not answer; `null` while it does. */
  outage: string | null = null;
  scan: Scan | null = null;
  /** How many lines a page has. */
  pageSize = 1;
  #pageBeforeHelp: Page = 'locks';
  #lockKey: string | null = null;
  #lockIndex = 0;
  #claimId: string | null = null;
  #claimIndex = 0;

  /** The locks in the order of the table. */
  rows(nowMs: number): Row[] {
    if (this.scan === null) return [];
    const rows = rowsOf(this.scan.views, nowMs - this.scan.atMs);
    return sorted(filtered(rows, this.filter), this.sort, this.isReversed);
  }

  /** The selection stays with its lock, and with its line when the lock is gone. */
  selectedRow(rows: readonly Row[]): number {
    const found = rows.findIndex((row) => row.key === this.#lockKey);
    const index = found >= 0 ? found : Math.max(Math.min(this.#lockIndex, rows.length - 1), 0);
    if (this.page === 'locks') [this.#lockKey, this.#lockIndex] = [rows[index]?.key ?? null, index];
    return index;
  }

  /** The lock of the page "lock"; `null` when it is free now. */
  get lock(): LockView | null {
    return this.scan?.views.find((view) => keyOf(view) === this.#lockKey) ?? null;
  }

  /** The name of that lock, also when it is free. */
  get lockName(): string {
    const [, name] = JSON.parse(this.#lockKey ?? '["", ""]') as [string, string];
    return name;
  }

  /** The index among the holders and the waiters of the lock. */
  selectedClaim(claims: readonly ClaimView[]): number {
    const found = claims.findIndex((claim) => claim.id === this.#claimId);
    const index = found >= 0 ? found : Math.max(Math.min(this.#claimIndex, claims.length - 1), 0);
    [this.#claimId, this.#claimIndex] = [claims[index]?.id ?? null, index];
    return index;
  }

  press(key: KeyPress, nowMs: number): Action | null {
    if (key.ctrl === true && key.name === 'c') return { kind: 'interrupt' };
    if (key.ctrl === true && key.name === 'z') return { kind: 'suspend' };
    if (key.ctrl === true) return null;
    this.message = '';
    if (this.question !== null) return this.#answer(this.question, key);
    if (this.isTyping) return this.#typeFilter(key);
    if (key.text === '?' || key.text === 'h') {
      this.#toggleHelp();
      return null;
    }
    if (this.page === 'help') this.#toggleHelp();
    else if (this.page === 'lock') return this.#pressOnLock(key);
    else return this.#pressOnLocks(key, nowMs);
    return null;
  }

  /** Help returns to the page on which it was asked for. */
  #toggleHelp(): void {
    if (this.page === 'help') this.page = this.#pageBeforeHelp;
    else [this.#pageBeforeHelp, this.page] = [this.page, 'help'];
  }

  /** Only a y is a yes. */
  #answer(eviction: Eviction, key: KeyPress): Action | null {
    this.question = null;
    if (key.text === 'y' || key.text === 'Y') return { kind: 'evict', eviction };
    this.message = 'Nothing was evicted';
    return null;
  }

  #typeFilter(key: KeyPress): null {
    if (key.name === 'return' || key.name === 'enter') this.isTyping = false;
    else if (key.name === 'escape') [this.isTyping, this.filter] = [false, ''];
    else if (key.name === 'backspace') this.filter = [...this.filter].slice(0, -1).join('');
    else if (key.meta !== true && /^[^\p{C}]+$/u.test(key.text)) this.filter += key.text;
    return null;
  }

  #pressOnLocks(key: KeyPress, nowMs: number): Action | null {
    const rows = this.rows(nowMs);
    const index = this.selectedRow(rows);
    const moved = this.#moved(key, index, rows.length);
    if (moved !== null) [this.#lockKey, this.#lockIndex] = [rows[moved]?.key ?? null, moved];
    else if (key.text === 'q') return { kind: 'quit' };
    else if (key.text === '/') this.isTyping = true;
    else if (key.name === 'escape') this.filter = '';
    else if (key.text === 's') this.sort = SORTS[(SORTS.indexOf(this.sort) + 1) % SORTS.length] ?? 'name';
    else if (key.text === 'r') this.isReversed = !this.isReversed;
    else if (rows[index] !== undefined && ['return', 'right', 'e'].includes(key.name ?? '')) {
      this.page = 'lock';
      [this.#claimId, this.#claimIndex] = [null, 0];
      if (key.text === 'e') this.#ask();
    }
    return null;
  }

  #pressOnLock(key: KeyPress): null {
    const claims = this.claims;
    const moved = this.#moved(key, this.selectedClaim(claims), claims.length);
    if (moved !== null) [this.#claimId, this.#claimIndex] = [claims[moved]?.id ?? null, moved];
    else if (key.text === 'e') this.#ask();
    else if (['escape', 'left', 'backspace', 'return', 'q'].includes(key.name ?? '')) this.page = 'locks';
    return null;
  }

  get claims(): ClaimView[] {
    const lock = this.lock;
    return lock === null ? [] : [...lock.holders, ...lock.waiters];
  }

  #ask(): void {
    const { lock, claims } = this;
    const claim = claims[this.selectedClaim(claims)];
    if (lock === null || claim === undefined) {
      this.message = 'There is no claim to evict';
      return;
    }
    const waiting = lock.waiters.indexOf(claim);
    const position = waiting === -1 ? null : waiting + 1;
    this.question = { name: lock.name, use: lock.use, claim, position };
  }

  /** Where the selection goes; `null` for a key that does not move it. */
  #moved(key: KeyPress, index: number, count: number): number | null {
    const last = Math.max(count - 1, 0);
    const to = (wanted: number): number => Math.min(Math.max(wanted, 0), last);
    if (key.name === 'up' || key.text === 'k') return to(index - 1);
    if (key.name === 'down' || key.text === 'j') return to(index + 1);
    if (key.name === 'pageup') return to(index - this.pageSize);
    if (key.name === 'pagedown' || key.name === 'space') return to(index + this.pageSize);
    if (key.name === 'home' || key.text === 'g') return 0;
    if (key.name === 'end' || key.text === 'G') return last;
    return null;
  }
}
