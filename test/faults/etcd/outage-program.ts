import { type Hold, type Locks, openLocks } from '../../../src/index.ts';

// `outage-program.ts URL`: an ordinary program that only its pending calls keep alive.
const [, , url = ''] = process.argv;
const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** Waits until the test has broken the connection. */
async function whenBroken(): Promise<void> {
  say('ready');
  await new Promise((resolve) => process.stdin.once('data', resolve));
  process.stdin.pause();
  process.stdin.unref?.();
}

/** Awaits every kind of call, one after the other, and prints how each has settled. */
async function pendingCalls(locks: Locks): Promise<void> {
  const hold = (name: string): Promise<Hold> => locks.mutex(`${name}-${process.pid}`).acquire();
  const [extended, released] = [await hold('extended'), await hold('released')];
  await whenBroken();
  const options = { waitMs: 1_500 };
  const calls: Record<string, () => Promise<unknown>> = {
    acquire: () => locks.mutex('a').acquire(options),
    tryAcquire: () => locks.mutex('a').tryAcquire(),
    run: () => locks.mutex('a').run(() => {}, options),
    once: () => locks.once('a', () => {}),
    take: () => locks.rateLimit('rate', { permits: 1, perMs: 60_000 }).take(1, options),
    extend: () => extended.extend(60_000),
    inspect: () => locks.inspect('a'),
    release: () => released.release(),
    close: () => locks.close({ drainMs: 0 }),
  };
  for (const [name, call] of Object.entries(calls)) {
    const result = await call().then(
      () => 'ok',
      (error: { code?: unknown }) => error.code ?? String(error),
    );
    say(`${name} ${result}`);
  }
}

async function main(): Promise<void> {
  // Holds outlast all calls together, each of which may take its whole time limit.
  const locks = await openLocks(url, { ttlMs: 120_000 });
  await pendingCalls(locks);
  say('done');
}

main().catch((error: unknown) => say(`failed: ${error}`));
