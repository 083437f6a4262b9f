import type { ClaimView, LockView } from '../view.ts';
import { copyable, duration, type Paint, printable, table } from './text.ts';

/** A table of locks. */
export function listLines(views: readonly LockView[], paint: Paint): string[] {
  if (views.length === 0) return [paint('dim', 'No lock is held or waited for.')];
  const rows = views.map((view) => {
    const [holder] = view.holders;
    return [
      copyable(view.name),
      describeKind(view),
      String(view.holders.length),
      String(view.waiters.length),
      holder === undefined ? '-' : ownerText(holder),
      holder?.heldForMs == null ? '-' : duration(holder.heldForMs),
      holder?.expiresInMs == null ? '-' : `in ${duration(holder.expiresInMs)}`,
    ];
  });
  const [head = '', ...lines] = table([
    ['LOCK', 'KIND', 'HOLDERS', 'WAITING', 'HELD BY', 'FOR', 'ENDS'],
    ...rows,
  ]);
  return [paint('bold', head), ...lines];
}

/** A lock with its holders and waiters. */
export function showLines(view: LockView, paint: Paint): string[] {
  const title = `${paint('bold', copyable(view.name))}  ${paint('dim', describeKind(view))}`;
  if (view.holders.length + view.waiters.length === 0) return [`${title}  ${paint('green', 'free')}`];
  const lines = [title];
  for (const claim of view.holders) lines.push(...holderLines(claim, paint));
  for (const [n, claim] of view.waiters.entries()) lines.push(...waiterLines(claim, n + 1, paint));
  return lines;
}

/** A holder with its claim, its fence and its metadata. */
export function holderLines(claim: ClaimView, paint: Paint): string[] {
  return [`  ${paint('red', 'held')}  ${ownerText(claim)}${timing(claim)}`, ...details(claim)];
}

/** A waiter with its position in the queue, its claim and its metadata. */
export function waiterLines(claim: ClaimView, position: number, paint: Paint): string[] {
  return [`  ${paint('yellow', `${position}.`)}  ${ownerText(claim)}`, ...details(claim)];
}

export function describeKind({ use, done, kind, permits }: LockView): string {
  if (use === 'once' || use === 'schedule') return done ? `${use}, done` : use;
  const text = kind === 'permits' ? `${permits} permits` : (kind ?? 'unused');
  return use === 'rateLimit' ? `rate limit, ${text}` : text;
}

/** The owner of a claim, and how it shares the lock. */
export function ownerText({ owner, id, mode }: ClaimView): string {
  const share = mode.kind === 'permits' ? ` (${mode.count})` : mode.kind === 'shared' ? ' (reads)' : '';
  return `${printable(owner ?? id)}${share}`;
}

function timing({ heldForMs, expiresInMs }: ClaimView): string {
  const since = heldForMs === null ? '' : ` for ${duration(heldForMs)}`;
  return `${since}${expiresInMs === null ? '' : `, ends in ${duration(expiresInMs)} unless renewed`}`;
}

function details({ id, fence, metadata }: ClaimView): string[] {
  const parts = [`claim ${copyable(id)}`];
  if (fence !== null) parts.push(`fence ${fence}`);
  if (metadata !== null) parts.push(printable(JSON.stringify(metadata)));
  return parts.map((part) => `        ${part}`);
}
