import type { LeaderList, LeaderSummary } from '../api.ts';
import { useJson } from './data/use-json.ts';
import { showCount } from './parts/durations.ts';
import { Empty } from './parts/empty.tsx';
import { Fence } from './parts/fence.tsx';
import { useNarrow } from './parts/media.ts';
import { Resource } from './parts/resource.tsx';
import { hashOf } from './parts/route.ts';
import { Sign } from './parts/signs.tsx';
import { Age, Lease } from './parts/ticking.tsx';
import { VisibleText } from './parts/visible-text.tsx';

const EVERY_MS = 2000;

/** Every election of the store that has a candidate, and who leads. */
export function LeadersPage() {
  const loaded = useJson<LeaderList>('api/leaders', {}, EVERY_MS);
  const isNarrow = useNarrow();
  return (
    <Resource title="Leaders" about="elections that have a candidate" loaded={loaded}>
      {({ leaders }) =>
        leaders.length === 0 ? (
          <Empty title="No elections">
            <p>An election shows here while a process leads it or stands as a candidate.</p>
          </Empty>
        ) : (
          <div class="card">
            <table aria-label="Leaders">
              <thead>
                <tr>
                  <th scope="col">Election</th>
                  <th scope="col">Leader</th>
                  {!isNarrow && (
                    <>
                      <th scope="col" class="age-column end">
                        Leads for
                      </th>
                      <th scope="col" class="lease-column">
                        Lease left
                      </th>
                      <th scope="col" class="waiting-column end">
                        Candidates
                      </th>
                    </>
                  )}
                </tr>
              </thead>
              <tbody>
                {leaders.map((each) => (
                  <Leader key={each.name} each={each} isNarrow={isNarrow} />
                ))}
              </tbody>
            </table>
          </div>
        )
      }
    </Resource>
  );
}

function Leader({ each, isNarrow }: { each: LeaderSummary; isNarrow: boolean }) {
  const { leader } = each;
  return (
    <tr>
      <td>
        <a class="name cut" href={hashOf('lock', { name: each.name })}>
          <VisibleText value={each.name} />
        </a>
      </td>
      <td>
        {leader === null ? (
          <span class="muted">No leader</span>
        ) : (
          <>
            <span class="owner">
              <Sign name="crown" />
              <VisibleText class="mono cut" value={leader.owner ?? 'unknown owner'} />
              {each.isHere && <span class="tag">this process</span>}
            </span>
            <span class="second">
              {leader.fence === null ? 'unknown term' : <Fence fence={leader.fence} word="term" />}
            </span>
          </>
        )}
      </td>
      {!isNarrow && (
        <>
          <td class="end">{leader !== null && <Age sinceMs={leader.heldSinceMs} />}</td>
          <td>{leader !== null && <Lease expiresAtMs={leader.expiresAtMs} leaseMs={leader.leaseMs} />}</td>
          <td class="end number">{showCount(each.candidateCount)}</td>
        </>
      )}
    </tr>
  );
}
