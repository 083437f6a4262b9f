import type { Timeline, TimelineSpan } from '../../api.ts';
import { plural, showMeasured, showTime } from '../parts/durations.ts';
import { nowMs } from '../parts/ticker.ts';
import { VisibleText } from '../parts/visible-text.tsx';
import { type OwnerRow, type OwnerRows, ownerRowsOf } from './owner-rows.ts';

/** Who held and who waited, as far as samples show. */
export function TimelineCard({ timeline }: { timeline: Timeline }) {
  const all = ownerRowsOf(timeline, nowMs());
  return (
    <section aria-labelledby="timeline">
      <h2 id="timeline">
        Timeline{' '}
        <span class="muted count">
          sampled every {showMeasured(timeline.intervalMs)} at best while someone watches; shorter holds may
          be missing
        </span>
      </h2>
      {all.rows.length === 0 ? (
        <p class="card note">Nothing was seen yet. The timeline begins with the first sample.</p>
      ) : (
        <div class="card timeline">
          <p class="legend">
            <span class="span held" aria-hidden="true" /> held
            <span class="span waiting" aria-hidden="true" /> waited
            {all.gaps.length > 0 && (
              <>
                <span class="span gap" aria-hidden="true" /> not sampled
              </>
            )}
          </p>
          <ol>
            {all.rows.map((row) => (
              <Row key={row.key} row={row} all={all} />
            ))}
          </ol>
          <Axis all={all} />
          {all.more > 0 && <p class="muted note">and {plural(all.more, 'more owner')}</p>}
        </div>
      )}
    </section>
  );
}

interface RowProps {
  readonly row: OwnerRow;
  readonly all: OwnerRows;
}

function Row({ row, all }: RowProps) {
  return (
    <li>
      <VisibleText class="mono cut" value={row.owner ?? 'unknown owner'} />
      <div class="owner-bars" aria-hidden="true">
        {all.gaps.map((gap) => (
          <span key={gap.fromMs} class="span gap" style={extent(gap, all)} />
        ))}
        {row.spans.map((span) => (
          <span
            key={`${span.id} ${span.state} ${span.fromMs}`}
            class={`span ${span.state}`}
            title={words(span)}
            style={extent(span.isOpen ? { fromMs: span.fromMs, toMs: all.toMs } : span, all)}
          />
        ))}
      </div>
      <span class="sr-only">{row.spans.slice(-4).map(words).join('; ')}</span>
    </li>
  );
}

/** Where a bar begins and how wide it is: custom properties, since the page allows no inline styles. */
function extent(span: { fromMs: number; toMs: number }, { fromMs, toMs }: OwnerRows): Record<string, string> {
  const part = (ms: number): number => Math.max(0, Math.min(1, (ms - fromMs) / (toMs - fromMs)));
  const from = part(span.fromMs);
  return {
    '--from': `${(100 * from).toFixed(2)}%`,
    '--wide': `${(100 * (part(span.toMs) - from)).toFixed(2)}%`,
  };
}

function words({ state, fence, fromMs, toMs, isOpen }: TimelineSpan): string {
  const what = state === 'held' ? `held${fence === null ? '' : `, fence ${fence}`},` : 'waited';
  return `${what} from ${showTime(fromMs)} ${isOpen ? 'until now' : `to ${showTime(toMs)}`}`;
}

const MARKS = [0, 0.25, 0.5, 0.75, 1];

function Axis({ all: { fromMs, toMs } }: { all: OwnerRows }) {
  return (
    <div class="axis muted number" aria-hidden="true">
      {MARKS.map((mark) => (
        <span key={mark}>{mark === 1 ? 'now' : showTime(fromMs + mark * (toMs - fromMs))}</span>
      ))}
    </div>
  );
}
