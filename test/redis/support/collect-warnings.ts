import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';

/** The result resolves to the warnings of this process since this call, those of this moment too. */
export function collectWarnings(): () => Promise<readonly string[]> {
  const seen: string[] = [];
  const onWarning = (warning: Error): void => void seen.push(String(warning));
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  return async () => {
    await sleep(10);
    return seen;
  };
}
