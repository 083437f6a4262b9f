import { memoryFenceGate } from '../../src/fence/index.ts';
import type { Scenario } from '../../src/testing/index.ts';

/** A number that is read and written back, one higher: two writers at once lose an update. */
export interface Register {
  value: number;
  /** The writes that were confirmed. */
  written: number;
  readonly gate: ReturnType<typeof memoryFenceGate>;
}

const TIMES = 4;

const setUp = (): Register => ({ value: 0, written: 0, gate: memoryFenceGate() });

const check = ({ value, written }: Register): void => {
  if (value !== written) throw new Error(`${written} writes made the value ${value}`);
};

/** How long the work under the lock takes. */
const WORK_MS = 40;

/** Every write is checked by its fence, in the same step as the write. */
export const fencedRegister: Scenario<Register> = {
  setUp,
  check,
  async run({ locks, state, sleep, log }) {
    for (let time = 0; time < TIMES; time += 1) {
      await locks.withLock('register', async (hold) => {
        // The gate first: from here on it refuses the writes of an earlier holder.
        await state.gate.check('register', hold.fence);
        const { value } = state;
        await sleep(WORK_MS);
        const isCurrent = await state.gate.check('register', hold.fence).then(
          () => true,
          () => false,
        );
        if (!isCurrent) return;
        state.value = value + 1;
        state.written += 1;
        log(`writes ${value + 1}`);
      });
    }
  },
};

/** Trusts the lock alone: a process that was paused writes what it had read before. */
export const unfencedRegister: Scenario<Register> = {
  setUp,
  check,
  async run({ locks, state, sleep, log }) {
    await locks.withLock('register', async () => {
      const { value } = state;
      log(`reads ${value}`);
      // Renewals are sent meanwhile, and each of their messages may meet a pause.
      await sleep(20 * WORK_MS);
      state.value = value + 1;
      state.written += 1;
      log(`writes ${value + 1}`);
    });
  },
};

/** Work that must be stopped when the hold is lost: two may only overlap when the signal is not heeded. */
export interface Room {
  readonly inside: Set<string>;
}

/** Leaves when the signal aborts. */
export const room: Scenario<Room> = {
  setUp: () => ({ inside: new Set() }),
  async run({ name, locks, state, sleep }) {
    for (let time = 0; time < TIMES; time += 1) {
      await locks
        .withLock('room', async (hold) => {
          for (let n = 0; n < 3; n += 1) {
            // A process that was paused learns here, before it does anything, that its time is over.
            if (hold.signal.aborted) break;
            hold.assertHeld();
            state.inside.add(name);
            if (state.inside.size > 1) throw new Error(`together: ${[...state.inside].join(', ')}`);
            state.inside.delete(name);
            await sleep(WORK_MS);
          }
        })
        .catch((error: unknown) => {
          if (error instanceof Error && error.message.startsWith('together')) throw error;
        });
    }
  },
};
