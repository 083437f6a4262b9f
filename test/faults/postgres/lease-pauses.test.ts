import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { LeaseStage } from '../../postgres/support/lease-stage.ts';
import { eventually } from '../../redis/support/stage.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { compiled } from '../../support/process/compiled.ts';

const stage = await useStage(LeaseStage.start());
const children: ChildProcess[] = [];
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
});

interface Word {
  readonly say: string;
  readonly fence: string;
  readonly code?: string;
  readonly isLost?: boolean;
}

/** A process that writes under the lock, and what it says of that. */
class Writer {
  readonly #child: ChildProcess;
  readonly said: Word[] = [];

  constructor(name: string) {
    const file = fileURLToPath(new URL('./support/careless-writer.ts', import.meta.url));
    this.#child = fork(compiled(file), [stage.url, name], {
      execArgv: ['--unhandled-rejections=strict'],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    children.push(this.#child);
    this.#child.on('message', (word: Word) => this.said.push(word));
  }

  /**
   * Stops the process during a hold for longer than the lease. Resolves to the fence of that hold.
   */
  async pause(work: () => Promise<void>): Promise<bigint> {
    const before = this.said.length;
    await eventually('it writes', () => this.said.slice(before).some(({ say }) => say === 'wrote'));
    await sleep(Math.random() * 100);
    this.#child.kill('SIGSTOP');
    await work();
    const fence = this.newestFence;
    this.#child.kill('SIGCONT');
    return fence;
  }

  get newestFence(): bigint {
    return BigInt(this.said.findLast(({ say }) => say === 'wrote')?.fence ?? 0);
  }

  async end(): Promise<void> {
    this.#child.send('end');
    const [code] = await once(this.#child, 'exit');
    expect(code).toBe(0);
  }
}

it('a paused holder is replaced, is notified when it resumes, and its late writes are refused', async () => {
  await stage.locks().mutex('warm').acquire();
  await stage.query(
    'CREATE TABLE ledger (id bigint GENERATED ALWAYS AS IDENTITY, fence bigint, writer text)',
  );
  // A process that is paused inside a transaction blocks the next holder until this time-out.
  const database = new URL(stage.url).pathname.slice(1);
  await stage.query(`ALTER DATABASE ${database} SET idle_in_transaction_session_timeout = '500ms'`);
  const [a, b] = [new Writer('a'), new Writer('b')];
  const greatest = async (): Promise<bigint> =>
    BigInt(
      String((await stage.query('SELECT coalesce(max(fence), 0)::text AS fence FROM ledger'))[0]?.fence),
    );
  const codes = new Set<string | undefined>();
  // Most pauses fall between two transactions. The server ends a transaction that is paused.
  for (let round = 0; round < 3 || (round < 8 && !codes.has('STALE_FENCE')); round += 1) {
    await eventually('one of them writes', () => a.newestFence !== b.newestFence);
    const writer = a.newestFence > b.newestFence ? a : b;
    const fence = await writer.pause(() =>
      eventually('another writes with a greater fence', async () => (await greatest()) > writer.newestFence),
    );
    const refused = (): Word | undefined =>
      writer.said.find((word) => word.say === 'refused' && word.fence === String(fence));
    await eventually('the late write is refused', () => refused() !== undefined);
    expect(refused()).toMatchObject({ isLost: true });
    codes.add(refused()?.code);
  }
  expect(codes).toContain('STALE_FENCE');
  await Promise.all([a.end(), b.end()]);
  const said = [...a.said, ...b.said];
  expect(said.filter(({ say }) => say === 'released what was lost')).toEqual([]);
  const rows = await stage.query('SELECT fence::text, writer FROM ledger ORDER BY id');
  const fences = rows.map(({ fence }) => BigInt(String(fence)));
  expect(fences.every((fence, n) => fence >= (fences[n - 1] ?? 0n))).toBe(true);
  // One fence, one writer.
  const writers = new Set(rows.map(({ fence, writer }) => `${fence} ${writer}`));
  expect(writers.size).toBe(new Set(fences).size);
  expect(new Set(rows.map(({ writer }) => writer)).size).toBe(2);
});
