import type { Page } from 'playwright-core';

interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  /** Microseconds of processor time. Time in which other programs had the processor is not in it. */
  readonly tdur?: number;
  readonly args?: { readonly name?: string };
}

/**
 * Runs `act`, and gives the longest task of the page's main thread meanwhile, in milliseconds of
 * processor time: no frame can be drawn during a task. A busy machine does not make it longer.
 */
export async function longestTaskMs(page: Page, act: () => Promise<void>): Promise<number> {
  const browser = page.context().browser();
  if (browser === null) throw new Error('the page has no browser');
  const categories = ['disabled-by-default-devtools.timeline', '__metadata'];
  await browser.startTracing(page, { categories });
  let recorded: Buffer;
  try {
    await act();
  } finally {
    recorded = await browser.stopTracing();
  }
  const { traceEvents }: { traceEvents: readonly TraceEvent[] } = JSON.parse(recorded.toString());
  const threadOf = ({ pid, tid }: TraceEvent): string => `${pid} ${tid}`;
  const mains = new Set(
    traceEvents
      .filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
      .map(threadOf),
  );
  const tasks = traceEvents.filter((each) => /RunTask$/.test(each.name) && mains.has(threadOf(each)));
  const timed = tasks.flatMap(({ tdur }) => (tdur === undefined ? [] : [tdur / 1000]));
  if (timed.length === 0) throw new Error('the trace has no tasks of the page');
  return timed.reduce((a, b) => Math.max(a, b));
}
