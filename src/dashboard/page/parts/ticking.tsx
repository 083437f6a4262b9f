import { EXPIRING_SHARE } from '../../api.ts';
import { showDuration } from './durations.ts';
import { setText, useTick } from './ticker.ts';

/** How long ago an instant of the server's clock is. */
export function Age({ sinceMs }: { sinceMs: number | null }) {
  const element = useTick<HTMLSpanElement>((span, now) =>
    setText(span, sinceMs === null ? 'unknown' : showDuration(now - sinceMs)),
  );
  return <span class="number" ref={element} />;
}

/** How long until an instant of the server's clock; `passed` once it is over. */
export function Until({ atMs, passed }: { atMs: number | null; passed: string }) {
  const element = useTick<HTMLSpanElement>((span, now) => {
    if (atMs === null) setText(span, 'unknown');
    else setText(span, atMs > now ? showDuration(atMs - now) : passed);
  });
  return <span class="number" ref={element} />;
}

interface LeaseProps {
  readonly expiresAtMs: number | null;
  /** The longest remainder seen of this claim: a full bar. */
  readonly leaseMs: number | null;
}

/** The lease that is left, as a bar that drains and as text. */
export function Lease({ expiresAtMs, leaseMs }: LeaseProps) {
  const element = useTick<HTMLDivElement>((row, now) => {
    const text = row.lastElementChild;
    if (!(text instanceof HTMLElement)) return;
    if (expiresAtMs === null || leaseMs === null) {
      setText(text, 'session');
      row.style.setProperty('--left', '1');
      return;
    }
    const leftMs = Math.max(0, expiresAtMs - now);
    const part = leaseMs === 0 ? 0 : Math.min(1, leftMs / leaseMs);
    row.style.setProperty('--left', part.toFixed(3));
    row.classList.toggle('low', part < EXPIRING_SHARE);
    setText(text, leftMs === 0 ? 'expired' : showDuration(leftMs));
  });
  return (
    <div class="lease" ref={element}>
      <span class="lease-bar" aria-hidden="true">
        <i />
      </span>
      <span class="number" />
    </div>
  );
}
