import type { HistoryEvent } from '../history.ts';
import type { Spans } from './spans.ts';
import { atSecond, unseen, type Verdict, verdict } from './verdict.ts';

const WRITES_MIN = 10;
/** How many earlier writes a write is compared with: a lost one is near. */
const REACH = 500;

/** A read and the write that follows it. */
interface Change {
  readonly lock: string;
  readonly process: number;
  readonly value: number;
  readonly readFrom: number;
  readonly readTo: number;
  readonly from: number;
  to: number;
  result: 'ok' | 'fail' | 'info';
}

/** No confirmed write of a register is lost, where fences are checked and where they are not. */
export function checkRegisters(spans: Spans): Verdict[] {
  const fenced = changes(spans, true);
  const plain = changes(spans, false);
  return [judge('lost updates, fenced register', fenced), judge('lost updates, unfenced register', plain)];
}

function judge(property: string, all: readonly Change[]): Verdict {
  if (all.length === 0) return unseen(property, 'no writes');
  const confirmed = all.filter(({ result }) => result === 'ok').sort((a, b) => a.from - b.from);
  const unsure = all.filter(({ result }) => result === 'info');
  const findings: string[] = [];
  for (const [n, next] of confirmed.entries()) {
    const earlier = confirmed.slice(Math.max(0, n - REACH), n).find((each) => isOverwritten(each, next));
    if (earlier === undefined || isExcused(earlier, next, unsure)) continue;
    findings.push(
      `${next.lock}: ${next.value} was written ${atSecond(next.from)} by process ${next.process}, ` +
        `and process ${earlier.process} had written ${earlier.value}`,
    );
  }
  return verdict(property, findings, {
    count: confirmed.length,
    wanted: WRITES_MIN,
    what: 'confirmed writes',
  });
}

/**
 * Every write adds 1 to what was read: the same number twice, or a smaller one later, has lost a
 * write.
 */
function isOverwritten(earlier: Change, next: Change): boolean {
  if (earlier.lock !== next.lock) return false;
  return earlier.value === next.value || (earlier.value > next.value && earlier.to < next.from);
}

/**
 * Without a fence check, a process that is stopped between its last check and its write sets the
 * register back, even with a correct lock. A read after such a write proves nothing about the
 * lock.
 */
function isExcused(earlier: Change, next: Change, unsure: readonly Change[]): boolean {
  return (
    next.readFrom > earlier.to &&
    unsure.some(({ lock, from, to }) => lock === next.lock && to >= earlier.from && from <= next.readTo)
  );
}

function changes(spans: Spans, isFenced: boolean): Change[] {
  const found: Change[] = [];
  const reads = new Map<string, { from: number; to: number }>();
  const open = new Map<string, Change>();
  for (const event of spans.history) {
    if ((event.op !== 'read' && event.op !== 'write') || (event.fence !== undefined) !== isFenced) continue;
    const key = `${event.process} ${event.lock}`;
    if (event.op === 'read') reads.set(key, readSpan(event, reads.get(key)));
    else if (event.type === 'invoke') {
      const { from, to } = reads.get(key) ?? { from: event.at, to: event.at };
      const { lock, process, value = 0, at } = event;
      const times = { readFrom: from, readTo: to, from: at, to: spans.endAt };
      const change: Change = { lock, process, value, ...times, result: 'info' };
      open.set(key, change);
      found.push(change);
    } else {
      const change = open.get(key) ?? lone(event, reads.get(key), found);
      change.to = event.at;
      change.result = event.type;
      open.delete(key);
    }
  }
  return found;
}

/** A write that was recorded without its beginning. */
function lone(event: HistoryEvent, read: { from: number; to: number } | undefined, found: Change[]): Change {
  const { lock, process, value = 0, at } = event;
  const times = { readFrom: read?.from ?? at, readTo: read?.to ?? at, from: at, to: at };
  const change: Change = { lock, process, value, ...times, result: 'info' };
  found.push(change);
  return change;
}

function readSpan(event: HistoryEvent, before: { from: number; to: number } | undefined) {
  if (event.type === 'invoke') return { from: event.at, to: event.at };
  return { from: before?.from ?? event.at, to: event.at };
}
