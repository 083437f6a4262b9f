import type { AuditEntry, AuditList, EvictOutcome } from '../api.ts';
import { useJson } from './data/use-json.ts';
import { showTime } from './parts/durations.ts';
import { Empty } from './parts/empty.tsx';
import { useNarrow } from './parts/media.ts';
import { Resource } from './parts/resource.tsx';
import { hashOf } from './parts/route.ts';
import { VisibleText } from './parts/visible-text.tsx';

const EVERY_MS = 3000;

const WORDS: Readonly<Record<EvictOutcome, string>> = {
  evicted: '✓ Evicted',
  gone: '– Already gone',
  changed: '– Changed, left alone',
  unsupported: '– Not possible on this store',
  failed: '? Unknown, the store failed',
};

/** What was evicted through this dashboard. */
export function AuditPage() {
  const loaded = useJson<AuditList>('api/audit', {}, EVERY_MS);
  const isNarrow = useNarrow();
  return (
    <Resource
      title="Audit"
      about="evictions through this dashboard since it started, newest first"
      loaded={loaded}
    >
      {({ entries }) =>
        entries.length === 0 ? (
          <Empty title="Nothing was evicted" />
        ) : (
          <div class="card">
            <table aria-label="Audit">
              <thead>
                <tr>
                  <th scope="col" class="when-column">
                    When
                  </th>
                  <th scope="col">Lock</th>
                  {!isNarrow && (
                    <>
                      <th scope="col">Claim</th>
                      <th scope="col">Outcome</th>
                    </>
                  )}
                </tr>
              </thead>
              <tbody>
                {entries.map((entry) => (
                  <Entry key={`${entry.atMs} ${entry.id}`} entry={entry} isNarrow={isNarrow} />
                ))}
              </tbody>
            </table>
          </div>
        )
      }
    </Resource>
  );
}

function Entry({ entry, isNarrow }: { entry: AuditEntry; isNarrow: boolean }) {
  return (
    <tr>
      <td>
        <span class="number">{showTime(entry.atMs)}</span>
        {entry.who !== null && (
          <span class="second">
            <VisibleText class="cut" value={entry.who} />
          </span>
        )}
      </td>
      <td>
        <a
          class="name cut"
          href={hashOf('lock', { name: entry.name, use: entry.use === 'lock' ? '' : entry.use })}
        >
          <VisibleText value={entry.name} />
        </a>
        {isNarrow && <span class="second">{WORDS[entry.outcome]}</span>}
      </td>
      {!isNarrow && (
        <>
          <td>
            <VisibleText class="mono cut" value={entry.owner ?? 'unknown owner'} />
            <span class="second mono">
              {entry.fence === null ? 'waited' : `fence ${entry.fence}`} ·{' '}
              <VisibleText class="cut" value={entry.id} />
            </span>
          </td>
          <td>{WORDS[entry.outcome]}</td>
        </>
      )}
    </tr>
  );
}
