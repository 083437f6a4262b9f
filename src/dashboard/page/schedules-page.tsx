import type { ScheduleList, ScheduleSummary } from '../api.ts';
import { useJson } from './data/use-json.ts';
import { showTime } from './parts/durations.ts';
import { Empty } from './parts/empty.tsx';
import { useNarrow } from './parts/media.ts';
import { Resource } from './parts/resource.tsx';
import { hashOf } from './parts/route.ts';
import { Age, Until } from './parts/ticking.tsx';
import { VisibleText } from './parts/visible-text.tsx';

const EVERY_MS = 2000;

/** Every schedule of the store: what runs, what ran, what comes next. */
export function SchedulesPage() {
  const loaded = useJson<ScheduleList>('api/schedules', {}, EVERY_MS);
  const isNarrow = useNarrow();
  return (
    <Resource title="Schedules" about="runs that the store remembers, in your local time" loaded={loaded}>
      {({ schedules }) =>
        schedules.length === 0 ? (
          <Empty title="No schedules">
            <p>A schedule shows here with its first run, or when the process that serves this page has it.</p>
          </Empty>
        ) : (
          <div class="card">
            <table aria-label="Schedules">
              <thead>
                <tr>
                  <th scope="col">Schedule</th>
                  {!isNarrow && <th scope="col">Now</th>}
                  <th scope="col">Last run</th>
                  {!isNarrow && <th scope="col">Next run</th>}
                </tr>
              </thead>
              <tbody>
                {schedules.map((each) => (
                  <Row key={each.name} each={each} isNarrow={isNarrow} />
                ))}
              </tbody>
            </table>
          </div>
        )
      }
    </Resource>
  );
}

function Row({ each, isNarrow }: { each: ScheduleSummary; isNarrow: boolean }) {
  return (
    <tr>
      <td>
        <a class="name cut" href={hashOf('lock', { name: each.name, use: 'schedule' })}>
          <VisibleText value={each.name} />
        </a>
        {isNarrow && (
          <div class="second">
            <Next each={each} />
          </div>
        )}
      </td>
      {!isNarrow && (
        <td>
          <Running each={each} />
        </td>
      )}
      <td>
        {each.lastSlotMs === null ? <span class="muted">none known</span> : showTime(each.lastSlotMs)}
        <span class="second">
          {isNarrow && each.running !== null ? <Running each={each} /> : lastWords(each)}
        </span>
      </td>
      {!isNarrow && (
        <td>
          <Next each={each} />
        </td>
      )}
    </tr>
  );
}

function lastWords({ lastSlotMs, isLastDone, running }: ScheduleSummary): string {
  if (lastSlotMs === null || isLastDone === null) return '';
  if (isLastDone) return '✓ finished';
  return running === null ? '✗ did not finish' : '… runs';
}

function Running({ each: { running } }: { each: ScheduleSummary }) {
  if (running === null) return <span class="muted">idle</span>;
  return (
    <>
      <span>
        runs for <Age sinceMs={running.heldSinceMs} />
      </span>
      <VisibleText class="second mono cut" value={running.owner ?? 'unknown owner'} />
    </>
  );
}

function Next({ each: { nextSlotMs, isKnownHere } }: { each: ScheduleSummary }) {
  if (nextSlotMs === null) {
    return (
      <span class="muted">{isKnownHere ? 'no further run' : 'only the processes that run it know'}</span>
    );
  }
  return (
    <span>
      {showTime(nextSlotMs)}
      <span class="second">
        <span>
          in <Until atMs={nextSlotMs} passed="0 s" />
        </span>
      </span>
    </span>
  );
}
