import type { AuditEntry, AuditList } from './api.ts';

const ENTRIES_MAX = 200;

/** What was evicted through this dashboard, in memory. */
export class Audit {
  readonly #entries: AuditEntry[] = [];

  add(entry: AuditEntry): void {
    this.#entries.unshift(entry);
    if (this.#entries.length > ENTRIES_MAX) this.#entries.pop();
  }

  list(): AuditList {
    return { entries: [...this.#entries] };
  }
}
