import type { Use } from '../use.ts';
import type { ClaimView, LockView } from '../view.ts';
import { canAsk, confirm } from './confirm.ts';
import { EXIT, UsageError } from './exit-code.ts';
import { holderLines, waiterLines } from './lock-text.ts';
import { print, printJson } from './print.ts';
import { copyable, type Paint, painter, quoted } from './text.ts';
import { withLocks } from './with-locks.ts';

export interface EvictOptions {
  readonly all?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
  readonly use?: Use;
}

interface Eviction {
  readonly id: string;
  readonly owner: string | null;
  readonly fence: bigint | null;
  readonly evicted: boolean;
}

/**
 * Takes a lock away from one claim, or from the claims that hold it. A person is asked first, and
 * sees exactly the claims that are evicted: a claim that is granted meanwhile is left alone.
 */
export async function evict(
  url: string,
  name: string,
  id: string | undefined,
  options: EvictOptions,
): Promise<number> {
  if ((id === undefined) === (options.all !== true))
    throw new UsageError('evict needs either a claim (see holdfast show) or --all');
  if (options.yes !== true && !canAsk())
    throw new UsageError('evict asks first, and there is no terminal to ask on: give --yes');
  const view = await withLocks(url, (locks) => locks.inspect(name, { use: options.use }));
  const claims = id === undefined ? view.holders : claimsById(view, id);
  if (options.yes !== true && claims.length > 0 && !(await isConfirmed(view, claims))) {
    process.stderr.write('Nothing was evicted\n');
    return EXIT.nothing;
  }
  // With `--yes`, the claim of this id is evicted even if the store does not show it. Otherwise
  // only the claims that a person has confirmed are evicted.
  const ids = id !== undefined && options.yes === true ? [id] : claims.map((claim) => claim.id);
  const evictions: Eviction[] = [];
  try {
    await withLocks(url, async (locks) => {
      for (const each of ids) {
        const evicted = await locks.evict(name, { id: each }, { use: options.use });
        const claim = claims.find((shown) => shown.id === each);
        evictions.push({ id: each, owner: claim?.owner ?? null, fence: claim?.fence ?? null, evicted });
      }
    });
  } catch (error) {
    // The claims before the failure have lost the lock; the others may have.
    if (evictions.length > 0) report(name, id, evictions, options);
    throw error;
  }
  report(name, id, evictions, options);
  return evictions.some(({ evicted }) => evicted) ? EXIT.ok : EXIT.nothing;
}

function claimsById({ holders, waiters }: LockView, id: string): ClaimView[] {
  return [...holders, ...waiters].filter((claim) => claim.id === id);
}

async function isConfirmed(view: LockView, claims: readonly ClaimView[]): Promise<boolean> {
  const paint = painter(process.stderr);
  for (const claim of claims) {
    for (const line of linesOf(view, claim, paint)) process.stderr.write(`${line}\n`);
  }
  const what = claims.length === 1 ? 'this claim' : `these ${claims.length} claims`;
  return await confirm(`Take ${quoted(view.name)} away from ${what}?`);
}

function linesOf({ waiters }: LockView, claim: ClaimView, paint: Paint): string[] {
  const ahead = waiters.indexOf(claim);
  return ahead < 0 ? holderLines(claim, paint) : waiterLines(claim, ahead + 1, paint);
}

function report(
  name: string,
  id: string | undefined,
  evictions: readonly Eviction[],
  { json }: EvictOptions,
): void {
  if (json === true) {
    const claims = evictions.map(({ fence, ...each }) => ({ ...each, fence: fence?.toString() ?? null }));
    printJson(
      id === undefined ? { name, claims } : { name, id, evicted: evictions.some(({ evicted }) => evicted) },
    );
    return;
  }
  for (const each of evictions) print(outcomeText(name, each.id, each.evicted));
  if (evictions.length > 0) return;
  print(id === undefined ? `${quoted(name)} is not held` : outcomeText(name, id, false));
}

/** What became of the eviction of a claim. */
export function outcomeText(name: string, id: string, evicted: boolean): string {
  return evicted
    ? `Took ${quoted(name)} away from claim ${copyable(id)}`
    : `Claim ${copyable(id)} was gone already`;
}
