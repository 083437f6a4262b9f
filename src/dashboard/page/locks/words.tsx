import type { ClaimSummary, LockState, LockSummary, LockUse } from '../../api.ts';
import { Sign } from '../parts/signs.tsx';

export const USE_WORDS: Readonly<Record<LockUse, string>> = {
  lock: 'Lock',
  once: 'Run once',
  rateLimit: 'Rate limit',
  schedule: 'Schedule',
};

export const KIND_WORDS = { exclusive: 'Exclusive', shared: 'Shared', permits: 'Permits' } as const;

export const STATE_WORDS: Readonly<Record<LockState, string>> = {
  contended: 'Contended',
  'long-held': 'Long held',
  expiring: 'About to expire',
};

const STATE_LOOKS = { contended: 'contended', 'long-held': 'long', expiring: 'expiring' } as const;

export function StateTag({ state, isShort }: { state: LockState; isShort?: boolean }) {
  return (
    <span class={`tag ${STATE_LOOKS[state]}`} title={STATE_WORDS[state]}>
      <Sign name={STATE_LOOKS[state]} />
      <span class={isShort === true ? 'sr-only' : undefined}>{STATE_WORDS[state]}</span>
    </span>
  );
}

/** `Lock · Exclusive`, `Rate limit · 10 permits`. */
export function describe({ use, kind, permits }: LockSummary): string {
  const words = kind === null ? null : permits === null ? KIND_WORDS[kind] : `${permits} permits`;
  return words === null ? USE_WORDS[use] : `${USE_WORDS[use]} · ${words}`;
}

/** `exclusive`, `shared`, `2 permits`. */
export function modeWords(claim: ClaimSummary): string {
  return claim.permits === null
    ? claim.kind
    : `${claim.permits} ${claim.permits === 1 ? 'permit' : 'permits'}`;
}

/** The first of the metadata, in the form `key=value`. */
export function metadataLine(claim: ClaimSummary): string {
  const entries = Object.entries(claim.metadata ?? {});
  const shown = entries
    .slice(0, 4)
    .map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  return shown.join('  ');
}
