import type { LockState, LockSummary } from '../../api.ts';
import { plural, showCount } from '../parts/durations.ts';
import { Fence } from '../parts/fence.tsx';
import { hashOf } from '../parts/route.ts';
import { Age, Lease } from '../parts/ticking.tsx';
import { VisibleText } from '../parts/visible-text.tsx';
import { describe, metadataLine, StateTag } from './words.tsx';

interface RowProps {
  readonly lock: LockSummary;
  readonly states: readonly LockState[];
  readonly index: number;
}

function Name({ lock }: { lock: LockSummary }) {
  return (
    <a class="name cut" href={hashOf('lock', { name: lock.name, use: lock.use === 'lock' ? '' : lock.use })}>
      <VisibleText value={lock.name} />
    </a>
  );
}

function Tags({ states }: { states: readonly LockState[] }) {
  return (
    <>
      {states.map((state) => (
        <StateTag key={state} state={state} />
      ))}
    </>
  );
}

/** A phone has room for the words of one state. The others are signs. */
function NarrowTags({ states }: { states: readonly LockState[] }) {
  return (
    <>
      {states.map((state, n) => (
        <StateTag key={state} state={state} isShort={n > 0} />
      ))}
    </>
  );
}

function HolderLine({ lock }: { lock: LockSummary }) {
  const [first] = lock.holders;
  if (first === undefined) return <span class="muted">{lock.done ? 'Done, remembered' : 'Free'}</span>;
  const more = lock.holderCount - 1;
  return (
    <span class="owner">
      {first.owner === null ? (
        <span class="muted">unknown owner</span>
      ) : (
        <VisibleText class="mono cut" value={first.owner} />
      )}
      {more > 0 && <span class="tag">+{showCount(more)}</span>}
    </span>
  );
}

function HolderDetail({ lock }: { lock: LockSummary }) {
  const [first] = lock.holders;
  if (first === undefined) return null;
  const metadata = metadataLine(first);
  return (
    <span class="second">
      {first.fence !== null && <Fence fence={first.fence} word="fence" />}
      {metadata !== '' && <VisibleText class="cut" value={metadata} />}
    </span>
  );
}

function Queue({ count }: { count: number }) {
  return (
    <span class={count > 0 ? 'queue some number' : 'queue muted number'}>
      {showCount(count)}
      <span class="sr-only"> waiting</span>
    </span>
  );
}

function LeaseOf({ lock }: { lock: LockSummary }) {
  const soonest = lock.holders.find(({ expiresAtMs }) => expiresAtMs === lock.expiresAtMs) ?? lock.holders[0];
  if (soonest === undefined) return <span class="muted">–</span>;
  return <Lease expiresAtMs={soonest.expiresAtMs} leaseMs={soonest.leaseMs} />;
}

/** One lock in a window that has room for all columns. */
export function WideRow({ lock, states, index }: RowProps) {
  return (
    <tr data-index={index} aria-rowindex={index + 2}>
      <td>
        <Name lock={lock} />
        <div class="second">
          {describe(lock)}
          <Tags states={states} />
        </div>
      </td>
      <td>
        <HolderLine lock={lock} />
        <HolderDetail lock={lock} />
      </td>
      <td class="end">
        {lock.heldSinceMs === null ? <span class="muted">–</span> : <Age sinceMs={lock.heldSinceMs} />}
      </td>
      <td>
        <LeaseOf lock={lock} />
      </td>
      <td class="end">
        <Queue count={lock.waiterCount} />
      </td>
    </tr>
  );
}

/** The same on a phone: two columns of three lines. */
export function NarrowRow({ lock, states, index }: RowProps) {
  return (
    <tr data-index={index} aria-rowindex={index + 2}>
      <td>
        <Name lock={lock} />
        <div class="second">
          <HolderLine lock={lock} />
        </div>
        <div class="second">{states.length > 0 ? <NarrowTags states={states} /> : describe(lock)}</div>
      </td>
      <td class="end">
        {lock.waiterCount > 0 ? (
          <span class="queue some number">{plural(lock.waiterCount, 'waiter')}</span>
        ) : (
          <span class="muted">no queue</span>
        )}
        <div class="second end">
          {lock.heldSinceMs !== null && (
            <span>
              held <Age sinceMs={lock.heldSinceMs} />
            </span>
          )}
        </div>
        <LeaseOf lock={lock} />
      </td>
    </tr>
  );
}
