import { createLocks, type Hold, type Locks } from '../../../src/index.ts';
import { remoteStore } from './remote-store.ts';

/** What a process does in a fault test, chosen by its first argument. */
const say = (what: string, details: Record<string, unknown> = {}): void =>
  void process.send?.({ say: what, ...details });

const told = new Map<string, () => void>();
process.on('message', (message: { kind?: string; what?: string }) => {
  if (message.kind === 'tell') told.get(message.what ?? '')?.();
});
const toldTo = (what: string): Promise<void> => new Promise((resolve) => told.set(what, resolve));

/** The process must end by itself when only the channel to its parent is left. */
const letGo = (): void => void process.channel?.unref();

const stall = (ms: number): void => {
  const end = performance.now() + ms;
  while (performance.now() < end);
};

const codeOf = (run: () => unknown): unknown => {
  try {
    run();
    return 'held';
  } catch (error) {
    return (error as { how?: unknown }).how;
  }
};

async function holdAndSay(locks: Locks, ttlMs: number): Promise<Hold> {
  const hold = await locks.mutex('lock').acquire({ ttlMs, waitMs: 20_000 });
  say('held', { fence: hold.fence, id: hold.id });
  return hold;
}

const SCENARIOS: Record<string, (locks: Locks) => Promise<void>> = {
  /** Rows 1 and 13: is paused, and checks its hold when it resumes. */
  async pausedHolder(locks) {
    const write = toldTo('write');
    const hold = await holdAndSay(locks, 800);
    const { signal } = hold;
    await write;
    const checked = codeOf(() => hold.assertHeld());
    const extended = await hold.extend().then(
      () => 'extended',
      (error: { code?: string }) => error.code,
    );
    say('wrote', { checked, extended, aborted: signal.aborted, fence: hold.fence });
  },
  /** Row 2: is paused while the answer to its claim is in its receive buffer. */
  async pausedWaiter(locks) {
    const hold = await locks.mutex('lock').acquire({ ttlMs: 800, waitMs: 20_000 });
    say('held', { fence: hold.fence, id: hold.id, remainingMs: hold.remainingMs });
    await hold.release();
    say('released');
  },
  /** Row 3: blocks its own event loop. */
  async stalledHolder(locks) {
    const hold = await holdAndSay(locks, 1_500);
    const { signal } = hold;
    let aborted: unknown = null;
    signal.addEventListener('abort', () => {
      aborted = (signal.reason as { how?: string }).how;
    });
    stall(2_000);
    const checked = codeOf(() => hold.assertHeld());
    say('stalled', {
      checked,
      aborted,
      remainingMs: hold.remainingMs,
      seenByNewListener: hold.signal.aborted,
    });
  },
  /** Row 6: holds for ever. */
  async holder(locks) {
    await holdAndSay(locks, 800);
    await toldTo('never');
  },
  /** Row 7: ways to end while holding. */
  async endsByItself(locks) {
    await holdAndSay(locks, 60_000);
    letGo();
  },
  async exits(locks) {
    await holdAndSay(locks, 60_000);
    process.exit(3);
  },
  async throws(locks) {
    await holdAndSay(locks, 60_000);
    setImmediate(() => {
      throw new Error('uncaught on purpose');
    });
  },
  async waitsToBeTerminated(locks) {
    await holdAndSay(locks, 60_000);
    say('handlers', { added: handlers() - handlersBefore });
    await toldTo('never');
  },
  /** A pending acquire and a candidate keep the process alive. */
  async waits(locks) {
    const waiting = locks
      .mutex('lock')
      .acquire({ waitMs: 900 })
      .catch(() => null);
    await new Promise((resolve) => setTimeout(resolve, 200));
    letGo();
    await waiting;
    say('waited');
    process.exitCode = 5;
  },
  async stands(locks) {
    const candidate = locks.election('lock', { ttlMs: 60_000 }).start();
    for (let tries = 0; tries < 1_000 && !candidate.isLeader; tries += 1)
      await new Promise((resolve) => setTimeout(resolve, 10));
    letGo();
    say('leads', { isLeader: candidate.isLeader });
    setTimeout(() => {
      say('still alive');
      void candidate.stop();
    }, 500).unref();
  },
  /** Row 8: gets the hold of another process as data. */
  async copycat(locks) {
    const mine = await locks.mutex('lock').tryAcquire();
    say('tried', { got: mine !== null });
  },
  /** Row 16: every background command fails, and no rejection may be unhandled. */
  async surrounded(locks) {
    locks.on('lost', () => {
      throw new Error('a listener of ours is broken too');
    });
    const hold = await holdAndSay(locks, 600);
    await toldTo('go');
    const candidate = locks.election('other', { ttlMs: 400 }).start({
      onElected: () => Promise.reject(new Error('handler')),
      onLost: () => {
        throw new Error('handler');
      },
    });
    const controller = new AbortController();
    const waiting = locks
      .mutex('lock')
      .acquire({ signal: controller.signal })
      .catch(() => 'aborted');
    setTimeout(() => controller.abort(), 200);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await hold.release().catch(() => {});
    say('through', { waiting: await waiting, how: codeOf(() => hold.assertHeld()) });
    void candidate.stop();
    void locks.close({ drainMs: 0 });
    setTimeout(() => process.exit(0), 300);
  },
};

const handlers = (): number =>
  ['SIGTERM', 'SIGINT', 'exit', 'beforeExit', 'uncaughtException', 'unhandledRejection']
    .map((event) => process.listenerCount(event))
    .reduce((sum, count) => sum + count, 0);
const handlersBefore = handlers();

const scenario = SCENARIOS[process.argv[2] ?? ''];
if (scenario === undefined) throw new Error(`no such scenario: ${process.argv[2]}`);
await scenario(createLocks(remoteStore()));
