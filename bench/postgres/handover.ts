import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { p50, report } from '../redis/measure.ts';

const WORKER = fileURLToPath(new URL('./handover-worker.ts', import.meta.url));
const ROUNDS = 100;

/** Processes that pass one lock around: ms from one's decision to let go until the next, who was waiting by then, had it. */
async function gaps(url: string, workers: number, kind: string): Promise<number[]> {
  const children = Array.from({ length: workers }, () =>
    spawn(process.execPath, ['--import', 'tsx', WORKER, url, `${ROUNDS}`, kind], {
      stdio: ['pipe', 'pipe', 'inherit'],
    }),
  );
  const lines = children.map((child) => createInterface({ input: child.stdout })[Symbol.asyncIterator]());
  for (const line of lines) await line.next();
  for (const child of children) child.stdin.write('go\n');
  const holds: Array<[number, number, number]> = [];
  for (const line of lines) holds.push(...JSON.parse(String((await line.next()).value)));
  holds.sort((a, b) => a[1] - b[1]);
  return holds.slice(1).flatMap(([asked, begun], n) => {
    const ended = holds[n]?.[2] ?? 0;
    return asked < ended ? [(begun - ended) / 1000] : [];
  });
}

async function measure(url: string, kind: 'lease' | 'advisory', title: string): Promise<void> {
  for (const workers of [2, 5]) {
    const samples = await gaps(url, workers, kind);
    report(`${title} between processes, ${workers - 1} waiting: p50 in ms`, p50(samples), { atMost: 3 });
  }
}

export const handover = (url: string): Promise<void> => measure(url, 'lease', 'hand-over');
export const advisoryHandover = (url: string): Promise<void> =>
  measure(url, 'advisory', 'advisory, hand-over');
