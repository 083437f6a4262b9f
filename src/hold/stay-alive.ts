import type { Clock, Timer } from '../clock.ts';

const HOUR_MS = 3_600_000;

/** Keeps the process alive until cancelled: somebody who waits to hold or to lead has work to do even when nothing else runs. */
export function stayAlive(clock: Clock): Timer {
  let timer: Timer;
  const again = (): void => {
    timer = clock.startTimer(HOUR_MS, again, { keepAlive: true });
  };
  again();
  return { cancel: () => timer.cancel() };
}
