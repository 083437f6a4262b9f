import type { Core } from '../core.ts';
import type { Store } from '../store/store.ts';
import { slotIn, slotName, usedName } from '../use.ts';
import { codeOf } from '../util/error-code.ts';
import { type LockView, viewLock } from '../view.ts';

/** More locks than this are not read: the scan, its memory and the lists have a bound. */
export const LOCKS_MAX = 20_000;
/** A scan that takes longer ends with what it has read. */
const SCAN_MS = 60_000;
/** How many locks are read at once. Stores send the requests of one tick together. */
const TOGETHER = 64;

/** One lock, as it was read. */
export interface ReadLock {
  readonly view: LockView;
  /** By the wall clock of this process. */
  readonly readAtMs: number;
  /** Of a schedule: the latest slot that the store remembers, and whether its run has ended. */
  readonly slot: { readonly slotMs: number; readonly isDone: boolean } | null;
}

/** The names of the store, without the slots of schedules, which are shown as their schedule. */
interface Names {
  readonly locks: readonly string[];
  /** The latest slot of each schedule. */
  readonly slots: ReadonlyMap<string, number>;
  readonly isTruncated: boolean;
}

/**
 * Reads every lock of the store once, and passes each on as soon as it is read. Rejects when the
 * store fails. Resolves to whether there are more locks than were read.
 */
export async function scanStore(core: Core, onLock: (lock: ReadLock) => void): Promise<boolean> {
  const { clock } = core;
  const endMs = clock.monotonicMs() + SCAN_MS;
  const isLate = (): boolean => clock.monotonicMs() > endMs;
  const { locks, slots, isTruncated } = await listNames(core, isLate);
  const shown = new Set<string>();
  for (let from = 0; from < locks.length; from += TOGETHER) {
    if (isLate()) return true;
    const some = locks.slice(from, from + TOGETHER);
    for (const lock of await Promise.all(some.map((name) => readLock(core, name, slots)))) {
      if (lock.view.kind === null) continue;
      if (lock.view.use === 'schedule') shown.add(lock.view.name);
      onLock(lock);
    }
  }
  // A schedule without a run in progress is shown by its latest slot.
  const idle = [...slots].filter(([schedule]) => !shown.has(schedule));
  for (let from = 0; from < idle.length; from += TOGETHER) {
    if (isLate()) return true;
    const some = idle.slice(from, from + TOGETHER);
    for (const lock of await Promise.all(some.map((each) => readSlot(core, ...each)))) {
      if (lock.view.kind !== null) onLock(lock);
    }
  }
  return isTruncated;
}

/** PostgreSQL's advisory locks have keys, not names: only the names of this process are known. */
export function listsOnlyOwn({ kind }: Store): boolean {
  return kind === 'postgres-advisory';
}

/** The elections in which this process stands. */
export function standingIn({ stoppables }: Core): string[] {
  return [...stoppables].flatMap(({ serves }) => (serves?.kind === 'election' ? [serves.name] : []));
}

async function listNames(core: Core, isLate: () => boolean): Promise<Names> {
  if (!listsOnlyOwn(core.store)) return await listStore(core, isLate);
  const { locks, ...rest } = await listStore(core, isLate);
  // This process knows the names of these, also when another one leads.
  return { ...rest, locks: [...new Set([...locks, ...standingIn(core)])] };
}

async function listStore({ commands, store }: Core, isLate: () => boolean): Promise<Names> {
  const locks: string[] = [];
  const slots = new Map<string, number>();
  const names = store.list('')[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value: name } = await commands.run(() => names.next());
      if (done === true) return { locks, slots, isTruncated: false };
      if (isLate()) return { locks, slots, isTruncated: true };
      const slotMs = slotIn(name);
      const schedule = slotMs === null ? null : usedName(name).name;
      const isKnown = schedule !== null && slots.has(schedule);
      if (!isKnown && locks.length + slots.size >= LOCKS_MAX) return { locks, slots, isTruncated: true };
      if (slotMs === null || schedule === null) locks.push(name);
      else slots.set(schedule, Math.max(slotMs, slots.get(schedule) ?? slotMs));
    }
  } catch (error) {
    // Such a store says by this error that the process holds none.
    if (!listsOnlyOwn(store) || codeOf(error) !== 'UNSUPPORTED') throw error;
    return { locks, slots, isTruncated: false };
  } finally {
    names.return?.()?.catch(() => {});
  }
}

async function readLock(core: Core, stored: string, slots: ReadonlyMap<string, number>): Promise<ReadLock> {
  const view = await readView(core, stored);
  const readAtMs = core.clock.wallMs();
  const slotMs = view.use === 'schedule' ? slots.get(view.name) : undefined;
  if (slotMs === undefined) return { view, readAtMs, slot: null };
  const { done } = await readView(core, slotName(view.name, slotMs));
  return { view, readAtMs, slot: { slotMs, isDone: done } };
}

async function readSlot(core: Core, schedule: string, slotMs: number): Promise<ReadLock> {
  const view = await readView(core, slotName(schedule, slotMs));
  return { view, readAtMs: core.clock.wallMs(), slot: { slotMs, isDone: view.done } };
}

/** Does not keep the process alive, unlike a call of the user. */
async function readView({ commands, store }: Core, stored: string): Promise<LockView> {
  return viewLock(stored, await commands.run((signal) => store.read(stored, signal)));
}
