import type { LockView } from '../../view.ts';
import { describeKind, ownerText } from '../lock-text.ts';
import { copyable } from '../text.ts';

/** One lock in the table. Every text is printable. */
export interface Row {
  readonly key: string;
  readonly view: LockView;
  readonly name: string;
  readonly kind: string;
  readonly holders: number;
  readonly queue: number;
  /** Of the oldest hold; `null` where there is none, or the store does not know. */
  readonly ageMs: number | null;
  /** Of the lease that ends first. */
  readonly leaseMs: number | null;
  /** The greatest. */
  readonly fence: bigint | null;
  readonly owner: string;
}

export type Sort = 'name' | 'queue' | 'age' | 'lease' | 'fence' | 'owner';

export const SORTS: readonly Sort[] = ['name', 'queue', 'age', 'lease', 'fence', 'owner'];

/** Identifies a lock. Locks of different uses may have the same name. */
export function keyOf({ use, name }: LockView): string {
  return JSON.stringify([use, name]);
}

/** `elapsedMs`: since the views were read. Ages grow and leases shrink between two scans. */
export function rowsOf(views: readonly LockView[], elapsedMs: number): Row[] {
  return views.map((view) => {
    const { name, holders, waiters } = view;
    const ages = holders.flatMap(({ heldForMs }) => heldForMs ?? []);
    const leases = holders.flatMap(({ expiresInMs }) => expiresInMs ?? []);
    const fences = holders.flatMap(({ fence }) => fence ?? []);
    const [first, ...others] = holders;
    return {
      key: keyOf(view),
      view,
      name: copyable(name),
      kind: describeKind(view),
      holders: holders.length,
      queue: waiters.length,
      ageMs: ages.length === 0 ? null : Math.max(...ages) + elapsedMs,
      leaseMs: leases.length === 0 ? null : Math.max(Math.min(...leases) - elapsedMs, 0),
      fence: fences.reduce<bigint | null>((most, each) => (most === null || each > most ? each : most), null),
      owner: first === undefined ? '' : ownerText(first) + (others.length === 0 ? '' : ` +${others.length}`),
    };
  });
}

/** Rows whose name or owner contains the text, in any case. */
export function filtered(rows: readonly Row[], text: string): Row[] {
  const wanted = text.toLowerCase();
  return rows.filter(({ name, owner }) => `${name}\n${owner}`.toLowerCase().includes(wanted));
}

/** The worst first: long queues, old holds, leases that are about to end. Names break ties. */
export function sorted(rows: readonly Row[], sort: Sort, isReversed: boolean): Row[] {
  const compare = COMPARE[sort];
  const direction = isReversed ? -1 : 1;
  return [...rows].sort(
    (a, b) => direction * compare(a, b) || ascending(a.name, b.name) || ascending(a.key, b.key),
  );
}

function ascending<T extends string | number | bigint>(a: T, b: T): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

const COMPARE: Readonly<Record<Sort, (a: Row, b: Row) => number>> = {
  name: (a, b) => ascending(a.name, b.name),
  queue: (a, b) => ascending(b.queue, a.queue),
  age: (a, b) => ascending(b.ageMs ?? -1, a.ageMs ?? -1),
  lease: (a, b) => ascending(a.leaseMs ?? Number.MAX_VALUE, b.leaseMs ?? Number.MAX_VALUE),
  fence: (a, b) => ascending(b.fence ?? -1n, a.fence ?? -1n),
  owner: (a, b) => ascending(a.owner, b.owner),
};
