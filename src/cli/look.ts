import type { Locks } from '../locks.ts';
import { openLocks } from '../open.ts';
import type { ClaimView, LockView } from '../view.ts';
import { atMost, within } from './bounded.ts';
import { EXIT } from './exit-code.ts';
import { copyable, duration, type Paint, painter, printable, quoted, table } from './text.ts';

interface JsonOption {
  readonly json?: boolean;
}

const ANSWER_MS = 6_000;
const CLOSE_MS = 1_000;

async function withLocks<T>(url: string, look: (locks: Locks) => Promise<T>): Promise<T> {
  const locks = await within(ANSWER_MS, openLocks(url));
  try {
    return await within(ANSWER_MS, look(locks));
  } finally {
    await atMost(CLOSE_MS, locks.close({ drainMs: 0 }));
  }
}

export async function list(url: string, prefix: string, options: JsonOption): Promise<number> {
  const views = await withLocks(url, async (locks) => {
    const found: LockView[] = [];
    // Names of a kind of their own hold a control character, which no prefix may: then this looks through some more.
    const [given = ''] = /^[^\p{Cc}\p{Cs}]*/u.exec(prefix) ?? [];
    for await (const view of locks.list(given)) if (view.name.startsWith(prefix)) found.push(view);
    return found.sort((a, b) => (a.name < b.name ? -1 : 1));
  });
  if (options.json === true) printJson(views);
  else for (const line of listLines(views, painter(process.stdout))) print(line);
  return EXIT.ok;
}

export async function show(url: string, name: string, options: JsonOption): Promise<number> {
  const view = await withLocks(url, (locks) => locks.inspect(name));
  if (options.json === true) printJson(view);
  else for (const line of showLines(view, painter(process.stdout))) print(line);
  return EXIT.ok;
}

export async function evict(url: string, name: string, id: string, options: JsonOption): Promise<number> {
  const evicted = await withLocks(url, (locks) => locks.evict(name, { id }));
  if (options.json === true) printJson({ name, id, evicted });
  else
    print(
      evicted
        ? `Took ${quoted(name)} away from claim ${copyable(id)}`
        : `Claim ${copyable(id)} was gone already`,
    );
  return evicted ? EXIT.ok : EXIT.nothing;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Fences are decimal text: they are too long for a number in most readers of JSON. */
function printJson(value: unknown): void {
  print(
    JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? item.toString() : item), 2),
  );
}

export function listLines(views: readonly LockView[], paint: Paint): string[] {
  if (views.length === 0) return [paint('dim', 'No lock is held or waited for.')];
  const rows = views.map((view) => {
    const [holder] = view.holders;
    return [
      copyable(view.name),
      describeKind(view),
      String(view.holders.length),
      String(view.waiters.length),
      holder === undefined ? '-' : whose(holder),
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

export function showLines(view: LockView, paint: Paint): string[] {
  const title = `${paint('bold', copyable(view.name))}  ${paint('dim', describeKind(view))}`;
  if (view.holders.length + view.waiters.length === 0) return [`${title}  ${paint('green', 'free')}`];
  const lines = [title];
  for (const claim of view.holders)
    lines.push(`  ${paint('red', 'held')}  ${whose(claim)}${timing(claim)}`, ...details(claim));
  for (const [n, claim] of view.waiters.entries())
    lines.push(`  ${paint('yellow', `${n + 1}.`)}  ${whose(claim)}`, ...details(claim));
  return lines;
}

function describeKind({ kind, permits }: LockView): string {
  return kind === 'permits' ? `${permits} permits` : (kind ?? 'unused');
}

function whose({ owner, id, mode }: ClaimView): string {
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
