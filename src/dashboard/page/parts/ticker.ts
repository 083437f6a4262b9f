import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

type Tick = (nowMs: number) => void;

const EVERY_MS = 250;
const ticks = new Set<Tick>();
let timer: ReturnType<typeof setInterval> | undefined;

/** Beyond this, a larger difference is a server whose clock was set back, not a slow message. */
const STEP_MS = 5000;
let offsetMs: number | undefined;

/** The server's "now" came with a message. The fastest message tells the difference best. */
export function syncClock(takenAtMs: number): void {
  const seenMs = performance.now() - takenAtMs;
  if (offsetMs === undefined || seenMs < offsetMs || seenMs > offsetMs + STEP_MS) offsetMs = seenMs;
}

/** The time by the clock of the server, in milliseconds since 1970. The viewer's own clock may be wrong. */
export function nowMs(): number {
  return offsetMs === undefined ? Date.now() : performance.now() - offsetMs;
}

function run(): void {
  if (document.hidden) return;
  const now = nowMs();
  for (const tick of ticks) tick(now);
}

function add(tick: Tick): () => void {
  ticks.add(tick);
  timer ??= setInterval(run, EVERY_MS);
  return () => {
    ticks.delete(tick);
    if (ticks.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

document.addEventListener('visibilitychange', run);

/**
 * Writes into one element four times a second, without rendering. One timer serves the whole page,
 * and it rests while the page is hidden.
 */
export function useTick<E extends HTMLElement>(write: (element: E, nowMs: number) => void) {
  const element = useRef<E>(null);
  const latest = useRef(write);
  latest.current = write;
  useLayoutEffect(() => {
    if (element.current !== null) latest.current(element.current, nowMs());
  });
  useEffect(
    () =>
      add((now) => {
        if (element.current !== null) latest.current(element.current, now);
      }),
    [],
  );
  return element;
}

/** Renders again in steps of this length: for what is chosen by time, as states are. */
export function useTimeStep(stepMs: number): number {
  const [step, setStep] = useState(() => Math.floor(nowMs() / stepMs));
  useEffect(() => add((now) => setStep(Math.floor(now / stepMs))), [stepMs]);
  return step;
}

/** Sets the text only when it differs: an unchanged write would still cost a layout. */
export function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
