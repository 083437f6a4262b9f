/** How long everything is measured. */
export interface Effort {
  readonly warmMs: number;
  /** Of one contender. */
  readonly roundMs: number;
  readonly rounds: number;
  readonly throughputRounds: number;
  readonly tasks: readonly number[];
  readonly handoffWaiters: readonly number[];
  /** Handoffs, of all processes together: of contenders that wait for a message, and of those that poll. */
  readonly handoffs: number;
  readonly polledHandoffs: number;
  readonly waiters: number;
  readonly waitingMs: number;
  readonly memoryHolds: number;
  readonly memoryWaiters: number;
}

/** About seven minutes on two cores without other work. */
export const FULL: Effort = {
  warmMs: 1_500,
  roundMs: 250,
  rounds: 8,
  throughputRounds: 3,
  tasks: [1, 10, 100],
  handoffWaiters: [1, 3, 10],
  handoffs: 900,
  polledHandoffs: 45,
  waiters: 50,
  waitingMs: 3_000,
  memoryHolds: 5_000,
  memoryWaiters: 1_000,
};

/** Checks that everything runs. Its figures mean nothing. */
export const QUICK: Effort = {
  warmMs: 20,
  roundMs: 40,
  rounds: 2,
  throughputRounds: 1,
  tasks: [1, 10],
  handoffWaiters: [1, 2],
  handoffs: 20,
  polledHandoffs: 6,
  waiters: 10,
  waitingMs: 500,
  memoryHolds: 200,
  memoryWaiters: 50,
};
