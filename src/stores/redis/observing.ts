import { observeScript } from '../../generated/redis-scripts.ts';
import { runAlone, sendAlone } from './call.ts';
import type { Gate } from './gate.ts';
import type { Keys } from './keys.ts';
import type { Listener } from './listener.ts';

/** Asks the server to tell this listener of every change of a lock for so long; 0: no more. */
export async function observe(
  gate: Gate,
  keys: Keys,
  listener: Listener,
  name: string,
  forMs: number,
): Promise<void> {
  const line = keys.line(name);
  if (forMs === 0) await sendAlone(gate, 'zrem', [line, listener.channel], undefined);
  // Who is found not to be listening would be struck off; as soon as it does, it asks again.
  else if (listener.isUp)
    await runAlone(gate, observeScript, [line], [listener.channel, `${forMs}`], undefined);
}
