import { useCallback, useContext, useEffect, useState } from 'preact/hooks';
import type { ClaimSummary, LockDetail, LockSummary, LockUse } from '../../api.ts';
import type { Live } from '../data/live-list.ts';
import { useJson } from '../data/use-json.ts';
import { LiveContext } from '../data/use-live.ts';
import { EvictDialog } from '../evict/evict-dialog.tsx';
import { statesOf } from '../locks/select-locks.ts';
import { describe, StateTag, USE_WORDS } from '../locks/words.tsx';
import { plural, showCount } from '../parts/durations.ts';
import { Empty } from '../parts/empty.tsx';
import { hashOf } from '../parts/route.ts';
import { nowMs } from '../parts/ticker.ts';
import { Age, Until } from '../parts/ticking.tsx';
import { VisibleText } from '../parts/visible-text.tsx';
import { Durations } from './durations-card.tsx';
import { Holders } from './holders.tsx';
import { Queue, useQueueWindow } from './queue.tsx';
import { TimelineCard } from './timeline.tsx';

const USES = Object.keys(USE_WORDS) as LockUse[];

/** One lock: its holders and its queue now, and what was seen of it since someone watched. */
export function LockPage({ live, query }: { live: Live; query: URLSearchParams }) {
  const name = query.get('name') ?? '';
  const use = USES.find((each) => each === query.get('use')) ?? 'lock';
  return <Lock key={`${use} ${name}`} live={live} name={name} use={use} />;
}

function Lock({ live, name, use }: { live: Live; name: string; use: LockUse }) {
  const list = useContext(LiveContext);
  const [window, onRange] = useQueueWindow();
  const { data, failure, reload } = useJson<LockDetail>(
    'api/lock',
    { name, use, waiterOffset: window.offset, waiterLimit: window.limit },
    Math.max(1000, live.intervalMs),
  );
  const inList = list.get(use, name);
  // The list has heard of a change first.
  useEffect(reload, [inList, reload]);
  const [evicting, setEvicting] = useState<ClaimSummary | null>(null);
  const close = useCallback(() => {
    setEvicting(null);
    reload();
  }, [reload]);
  const isOrdered = live.session?.isOrdered !== false;
  const onEvict = live.session?.role === 'operate' ? setEvicting : null;
  return (
    <>
      <nav class="path" aria-label="Path">
        <a href={hashOf('locks')}>Locks</a>
        <span aria-hidden="true">/</span>
        <span class="muted">{USE_WORDS[use]}</span>
      </nav>
      <h1 class="lock-name mono wrap">
        <VisibleText value={name} />
      </h1>
      {failure !== null && data === null && (
        <Empty title="This lock cannot be shown">{failure.message}</Empty>
      )}
      {failure !== null && data !== null && (
        <p class="banner bad">{failure.message} What you see is from before.</p>
      )}
      {failure === null && data === null && <Empty title="Reading the lock …" />}
      {data !== null && (
        <>
          <Facts lock={data.lock} isOrdered={isOrdered} />
          <Holders lock={data.lock} holders={data.holders} onEvict={onEvict} />
          <Queue detail={data} {...{ isOrdered, onRange, onEvict }} />
          <TimelineCard timeline={data.timeline} />
          <Durations waits={data.waits} holds={data.holds} />
        </>
      )}
      {evicting !== null && data !== null && (
        <EvictDialog lock={data.lock} claim={evicting} onClose={close} />
      )}
    </>
  );
}

function Facts({ lock, isOrdered }: { lock: LockSummary; isOrdered: boolean }) {
  const states = statesOf(lock, nowMs());
  const ofPermits = lock.permits === null ? '' : ` of ${showCount(lock.permits)}`;
  return (
    <>
      <div class="lock-tags">
        <span class="tag">{describe(lock)}</span>
        {lock.done && <span class="tag">Done, remembered</span>}
        {states.map((state) => (
          <StateTag key={state} state={state} />
        ))}
      </div>
      <dl class="facts card">
        <div>
          <dt>Holders</dt>
          <dd>
            <span class="number">{showCount(lock.holderCount)}</span>
            {ofPermits !== '' && <small class="muted">{plural(lock.permits ?? 0, 'permit')} in all</small>}
          </dd>
        </div>
        <div>
          <dt>Waiting</dt>
          <dd class={lock.waiterCount > 0 ? 'some' : ''}>
            {isOrdered || lock.waiterCount > 0 ? (
              <span class="number">{showCount(lock.waiterCount)}</span>
            ) : (
              <span class="muted">unknown</span>
            )}
          </dd>
        </div>
        <div>
          <dt>Oldest hold</dt>
          <dd>
            {lock.heldSinceMs === null ? <span class="muted">–</span> : <Age sinceMs={lock.heldSinceMs} />}
          </dd>
        </div>
        <div>
          <dt>Soonest expiry</dt>
          <dd>
            {lock.expiresAtMs === null ? (
              <span class="muted">–</span>
            ) : (
              <Until atMs={lock.expiresAtMs} passed="expired" />
            )}
          </dd>
        </div>
      </dl>
    </>
  );
}
