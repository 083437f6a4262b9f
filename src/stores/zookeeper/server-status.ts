import { connect } from 'node:net';
import type { Clock } from '../../clock.ts';

/** How long a member may take to answer. */
const ANSWER_MS = 1_000;
/** An answer to `srvr` is shorter than this. */
const LENGTH_MAX = 10_000;

/** A member's answer to the four-letter command `srvr`. */
export interface ServerStatus {
  /** For example `3.8.0`. `null` when the member gave no version, or `srvr` is not in its whitelist. */
  readonly version: string | null;
  /** `leader`, `follower`, `observer`, `standalone`, `read-only`; `null`: not known. */
  readonly mode: string | null;
  /** Whether the member accepts writes. `null` when unknown. */
  readonly isServing: boolean | null;
}

/** Asks one member over a connection of its own. Never rejects. */
export async function askServer(
  { host, port }: { readonly host: string; readonly port: number },
  clock: Clock,
): Promise<ServerStatus> {
  const answer = await new Promise<string>((resolve) => {
    let text = '';
    const socket = connect(port, host, () => socket.write('srvr'));
    const timer = clock.startTimer(ANSWER_MS, () => socket.destroy());
    socket.on('data', (data) => {
      text += data.toString();
      if (text.length > LENGTH_MAX) socket.destroy();
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      timer.cancel();
      resolve(text);
    });
  });
  const version = /^Zookeeper version: (\d+\.\d+\.\d+)/m.exec(answer)?.[1] ?? null;
  const mode = /^Mode: (\S+)/m.exec(answer)?.[1] ?? null;
  const isHidden = answer.includes('not in the whitelist');
  return { version, mode, isServing: isHidden ? null : mode !== null && mode !== 'read-only' };
}
