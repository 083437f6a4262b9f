import { useEffect, useRef } from 'preact/hooks';
import { AuditPage } from './audit-page.tsx';
import type { Live, LiveStatus } from './data/live-list.ts';
import { useLive } from './data/use-live.ts';
import { LeadersPage } from './leaders-page.tsx';
import { LockPage } from './lock/lock-page.tsx';
import { LocksPage } from './locks/locks-page.tsx';
import { Announcer, announce } from './parts/announcer.tsx';
import { Empty } from './parts/empty.tsx';
import { hashOf, type Route, useRoute } from './parts/route.ts';
import { Mark } from './parts/signs.tsx';
import { SchedulesPage } from './schedules-page.tsx';

const TABS = [
  { page: 'locks', title: 'Locks' },
  { page: 'leaders', title: 'Leaders' },
  { page: 'schedules', title: 'Schedules' },
  { page: 'audit', title: 'Audit' },
] as const;

export function App() {
  const live = useLive();
  const route = useRoute();
  const main = useRef<HTMLElement>(null);
  const address = `${route.page} ${route.page === 'lock' ? route.query.get('name') : ''}`;
  const shown = useRef(address);
  useEffect(() => {
    if (shown.current === address) return;
    shown.current = address;
    window.scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [address]);
  return (
    <>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to content
      </button>
      <Header live={live} page={route.page} />
      <main id="main" ref={main} tabIndex={-1}>
        <Connection status={live.status} hasData={live.locks.length > 0} />
        <Page route={route} live={live} />
      </main>
      <Footer live={live} />
      <Announcer />
    </>
  );
}

function Page({ route, live }: { route: Route; live: Live }) {
  switch (route.page) {
    case 'locks':
      return <LocksPage live={live} query={route.query} />;
    case 'lock':
      return <LockPage live={live} query={route.query} />;
    case 'leaders':
      return <LeadersPage />;
    case 'schedules':
      return <SchedulesPage />;
    case 'audit':
      return <AuditPage />;
    default:
      return (
        <Empty title="There is no such page">
          <a href={hashOf('locks')}>Go to the locks</a>
        </Empty>
      );
  }
}

function Header({ live, page }: { live: Live; page: string }) {
  const { session } = live;
  const current = page === 'lock' ? 'locks' : page;
  return (
    <header class="top">
      <div class="top-inner">
        <a class="brand" href={hashOf('locks')}>
          <Mark />
          Holdfast
        </a>
        <nav class="tabs" aria-label="Pages">
          {TABS.map((tab) => (
            <a
              key={tab.page}
              href={hashOf(tab.page)}
              aria-current={tab.page === current ? 'page' : undefined}
            >
              {tab.title}
            </a>
          ))}
        </nav>
        <div class="top-end">
          {session?.role === 'read' && <span class="tag">Read only</span>}
          <Status status={live.status} />
        </div>
      </div>
    </header>
  );
}

const STATUS: Readonly<Record<LiveStatus, { text: string; look: string }>> = {
  connecting: { text: 'Connecting', look: 'waiting' },
  live: { text: 'Live', look: '' },
  reconnecting: { text: 'Reconnecting', look: 'waiting' },
  'store-failed': { text: 'Store not answering', look: 'down' },
  denied: { text: 'Signed out', look: 'down' },
};

function Status({ status }: { status: LiveStatus }) {
  const { text, look } = STATUS[status];
  const said = useRef<LiveStatus>('connecting');
  useEffect(() => {
    if (said.current === status) return;
    if (said.current !== 'connecting' || status !== 'live') announce(`Connection: ${text}`);
    said.current = status;
  }, [status, text]);
  return (
    <span class={`connection ${look}`}>
      <span class="dot" aria-hidden="true" />
      {text}
    </span>
  );
}

/** What stands above a page whose data may be old, and why. */
function Connection({ status, hasData }: { status: LiveStatus; hasData: boolean }) {
  const old = hasData ? ' What you see is from before.' : '';
  if (status === 'reconnecting')
    return (
      <p class="banner">The connection to the dashboard is interrupted. It is tried again by itself.{old}</p>
    );
  if (status === 'store-failed')
    return <p class="banner bad">The store of the locks does not answer. It is read again by itself.{old}</p>;
  if (status !== 'denied') return null;
  return (
    <p class="banner bad">
      You are signed out, or may not see this dashboard.
      <button type="button" class="button small" onClick={() => location.reload()}>
        Reload
      </button>
    </p>
  );
}

function Footer({ live: { session } }: { live: Live }) {
  if (session === null) return null;
  return (
    <footer>
      Holdfast {session.version} · {session.store} store · served by <span class="mono">{session.owner}</span>
      {session.who !== null && ` · signed in as ${session.who}`}
    </footer>
  );
}
