import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { openLocks } from '../../../src/index.ts';
import type { Backend, BackendKind, Route } from '../../../src/torture/backends/backend.ts';
import { startBackend } from '../../../src/torture/backends/start-backend.ts';
import type { Figures } from './figures.ts';

/**
 * What happens to the servers: they refuse connections; open connections fall silent; new ones are
 * accepted and never answered; requests arrive and replies do not; a minority refuses or falls
 * silent, and the others serve; a file is locked.
 */
export type OutageMode = (typeof NETWORK_MODES)[number] | (typeof MINORITY_MODES)[number] | 'busy';

const NETWORK_MODES = ['refused', 'silent', 'mute', 'no replies'] as const;
const MINORITY_MODES = ['minority', 'silent minority'] as const;
const isMinority = (mode: string): boolean => (MINORITY_MODES as readonly string[]).includes(mode);

export function modesOf(kind: BackendKind): readonly OutageMode[] {
  if (kind === 'sqlite') return ['busy'];
  return kind === 'redlock' ? [...NETWORK_MODES, ...MINORITY_MODES] : NETWORK_MODES;
}

export interface OutageOptions {
  readonly kind: BackendKind;
  readonly library: string;
  readonly modes: readonly OutageMode[];
  readonly forMs: number;
  readonly callers: number;
  /** How much the heap may grow; 20 unless set. A short outage needs a lower limit. */
  readonly heapMaxMb?: number;
  /** The compiled program. */
  readonly script: string;
}

/** One outage of one program. */
export interface OutageRow {
  readonly kind: BackendKind;
  readonly library: string;
  readonly mode: OutageMode;
  readonly calls: number;
  readonly heapMb: { readonly before: number; readonly after: number };
  /** Of one core, during the outage. */
  readonly cpuShare: number;
  /** Of one call, in ms. */
  readonly callMs: number;
  readonly listeners: number;
  readonly recoveredMs: number;
  readonly problems: readonly string[];
}

const HEAP_MAX_MB = 20;
/** What a call may cost more than without an outage, and what the process may cost without calls. */
const CALL_MAX_MS = 0.6;
const IDLE_MAX = 0.1;
/**
 * A busy host bills a process for time that it did not get. So only an outage whose every part was
 * expensive or slow counts as such; a leak or a busy loop is expensive in all of them.
 */
const PARTS_MAX = 4;
/** The servers are back; client libraries wait for some seconds until they try again. */
const RECOVER_MAX_MS = 10_000;
const LISTENERS_MAX = 20;
/** By then every claim of an abandoned call has expired or was released. */
const ORPHAN_MS = 15_000;
const SLACK_MS = 90_000;

/** What a program has measured around one outage. */
interface Seen {
  readonly idle: Figures;
  readonly healthy: Figures;
  readonly before: Figures;
  readonly after: Figures;
  readonly recoveredMs: number;
  readonly warnings: readonly string[];
}

type Measured = Omit<Seen, 'recoveredMs' | 'warnings'>;

/** Runs one program through one outage after the other, and checks each. */
export async function outage(options: OutageOptions): Promise<OutageRow[]> {
  const { kind, library, callers, script, forMs, modes } = options;
  await using backend = await startBackend(kind);
  const route = await backend.route();
  const first = await openLocks(backend.url, { waitMs: 30_000 });
  await first.withLock('prepared', () => 1);
  const child = spawn(
    process.execPath,
    ['--expose-gc', '--unhandled-rejections=strict', '--max-old-space-size=400', script].concat([
      kind,
      library,
      route.url,
      `${callers}`,
    ]),
    { stdio: ['pipe', 'pipe', 'pipe'] },
  );
  let stderr = '';
  child.stderr.on('data', (data: Buffer) => {
    stderr = (stderr + data.toString()).slice(-2_000);
  });
  child.stdin.on('error', () => {});
  const limit = setTimeout(() => child.kill('SIGKILL'), modes.length * (PARTS_MAX * forMs) + SLACK_MS);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const heard = async <T>(): Promise<T> => {
    const { done, value } = await lines.next();
    if (done === true) throw new Error(`${kind}, ${library}: the program ended: ${stderr}`);
    return JSON.parse(value) as T;
  };
  const rows: OutageRow[] = [];
  try {
    const begun = await heard<Pick<Seen, 'idle' | 'healthy'>>();
    for (const mode of modes) {
      child.stdin.write('out\n');
      await heard();
      const end = await begin(mode, backend, route);
      let seen: Pick<Seen, 'before' | 'after'>;
      for (let parts = 1; ; parts += 1) {
        await sleep(forMs);
        child.stdin.write('part\n');
        seen = await heard<Pick<Seen, 'before' | 'after'>>();
        const isPoor = isExpensive({ ...begun, ...seen }) || isSlow(mode, { ...begun, ...seen });
        if (parts === PARTS_MAX || !isPoor) break;
      }
      child.stdin.write('back\n');
      await end();
      const back = await heard<Pick<Seen, 'recoveredMs' | 'warnings'>>();
      rows.push(rowOf(options, mode, { ...begun, ...seen, ...back }));
    }
    child.stdin.write('end\n');
    await heard();
    const left = [...(await orphans(first)), ...(stderr === '' ? [] : [`stderr: ${stderr.trim()}`])];
    return rows.map((row) => ({ ...row, problems: [...row.problems, ...left] }));
  } finally {
    clearTimeout(limit);
    child.kill('SIGKILL');
    await first.close({ drainMs: 0 });
  }
}

async function begin(mode: OutageMode, backend: Backend, route: Route): Promise<() => Promise<void>> {
  if (mode === 'busy') {
    const { openWith } = await import('../../sqlite/support/libraries.ts');
    const database = openWith('libsql', backend.url.replace(/^sqlite:/, ''));
    // A worker may be writing at this moment.
    database.exec('PRAGMA busy_timeout = 10000');
    database.exec('BEGIN IMMEDIATE');
    return async () => {
      database.exec('COMMIT');
      database.close();
    };
  }
  const proxies = isMinority(mode) ? route.proxies.slice(0, 1) : route.proxies;
  for (const proxy of proxies) {
    if (mode === 'refused' || mode === 'minority') proxy.refuse();
    else proxy.drop(mode === 'no replies' ? 'toClient' : 'both');
    if (mode === 'refused' || mode === 'minority' || mode === 'mute') proxy.cut();
  }
  return async () => {
    for (const proxy of proxies) proxy.pass();
  };
}

const cpuOf = (from: Figures, to: Figures): number => to.cpuMs - from.cpuMs;
const callMsOf = (from: Figures, to: Figures): number => cpuOf(from, to) / Math.max(1, to.calls - from.calls);

const servedOf = (from: Figures, to: Figures): number => (to.holds - from.holds) / (to.atMs - from.atMs);
const shareOf = (from: Figures, to: Figures): number => cpuOf(from, to) / (to.atMs - from.atMs);

/** Whether the process was not near idle, and its calls cost more than without an outage. */
function isExpensive({ idle, healthy, before, after }: Measured): boolean {
  if (shareOf(before, after) <= IDLE_MAX) return false;
  return callMsOf(before, after) > callMsOf(idle, healthy) + CALL_MAX_MS;
}

/** Whether a majority that serves grants fewer locks than without an outage. */
function isSlow(mode: OutageMode, { idle, healthy, before, after }: Measured): boolean {
  return isMinority(mode) && servedOf(before, after) < servedOf(idle, healthy) / 4;
}

function rowOf(
  { kind, library, heapMaxMb = HEAP_MAX_MB }: OutageOptions,
  mode: OutageMode,
  seen: Seen,
): OutageRow {
  const { before, after, recoveredMs, warnings } = seen;
  const megabytes = (bytes: number): number => Math.round((bytes / 2 ** 20) * 10) / 10;
  const heapMb = { before: megabytes(before.heap), after: megabytes(after.heap) };
  const calls = after.calls - before.calls;
  const callMs = callMsOf(before, after);
  const cpuShare = shareOf(before, after);
  const listeners = after.listeners - before.listeners;
  const problems = [
    ...(heapMb.after - heapMb.before > heapMaxMb ? ['the heap grew'] : []),
    ...(isExpensive(seen) ? [`not near idle: ${callMs.toFixed(2)} ms a call`] : []),
    ...(listeners > LISTENERS_MAX ? ['listeners pile up'] : []),
    ...(calls === 0 ? ['no calls'] : []),
    ...(isSlow(mode, seen) ? ['few holds'] : []),
    ...(recoveredMs > RECOVER_MAX_MS ? ['slow to recover'] : []),
    ...warnings,
  ];
  return { kind, library, mode, calls, heapMb, cpuShare, callMs, listeners, recoveredMs, problems };
}

/** Claims that are left when every caller is gone. */
async function orphans(locks: Awaited<ReturnType<typeof openLocks>>): Promise<string[]> {
  for (const giveUpMs = performance.now() + ORPHAN_MS; ; await sleep(100)) {
    const views = await Promise.all([0, 1, 2, 3, 4].map((n) => locks.inspect(`outage-${n}`)));
    const left = views.flatMap((view) => [...view.holders, ...view.waiters]);
    if (left.length === 0) return [];
    if (performance.now() > giveUpMs) return left.map((claim) => `orphan: ${claim.id}`);
  }
}

/** A row of the table of the campaign. */
export function textOf(row: OutageRow): string {
  const { kind, library, mode, calls, heapMb, cpuShare, callMs, listeners, recoveredMs, problems } = row;
  return [
    kind.padEnd(10),
    library.padEnd(22),
    mode.padEnd(15),
    `${calls}`.padStart(8),
    `${heapMb.before.toFixed(1)} -> ${heapMb.after.toFixed(1)}`.padStart(16),
    `${(cpuShare * 100).toFixed(1)} %`.padStart(8),
    `${callMs.toFixed(2)} ms`.padStart(9),
    `${listeners}`.padStart(6),
    `${recoveredMs.toFixed(0)} ms`.padStart(10),
    problems.length === 0 ? 'ok' : problems.join('; '),
  ].join(' ');
}

export const TABLE_HEAD = [
  'store'.padEnd(10),
  'library'.padEnd(22),
  'outage'.padEnd(15),
  'calls'.padStart(8),
  'heap, MB'.padStart(16),
  'cpu'.padStart(8),
  'a call'.padStart(9),
  'list.'.padStart(6),
  'back in'.padStart(10),
].join(' ');
