import { fileURLToPath } from 'node:url';
import { Circle, gaps } from '../redis/circle.ts';
import { p50, report } from '../redis/measure.ts';

const WORKER = fileURLToPath(new URL('./handoff-worker.ts', import.meta.url));
const TURNS = 100;

interface Turns {
  readonly workers: number;
  readonly turns?: number;
  /** The worker, where it is compiled: many of them start faster. */
  readonly worker?: string;
}

/**
 * Processes that take turns with one lock: the ms from the moment before a release until the next
 * process, which was waiting by then, held the lock.
 */
export async function handoffMs(
  url: string,
  kind: 'lease' | 'advisory' | 'floor' | 'verrou',
  { workers, turns = TURNS, worker = WORKER }: Turns,
): Promise<number[]> {
  const circle = await Circle.start(worker, [url, kind], workers);
  const holds = await circle.round(turns);
  circle.stop();
  return gaps(holds).map((us) => us / 1000);
}

async function measure(url: string, kind: 'lease' | 'advisory', title: string): Promise<void> {
  for (const workers of [2, 5]) {
    const samples = await handoffMs(url, kind, { workers });
    report(`${title} between processes, ${workers - 1} waiting: p50 in ms`, p50(samples), { atMost: 3 });
  }
}

export const handoff = (url: string): Promise<void> => measure(url, 'lease', 'handoff');
export const advisoryHandoff = (url: string): Promise<void> => measure(url, 'advisory', 'advisory, handoff');
