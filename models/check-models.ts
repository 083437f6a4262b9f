import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { findProgram } from '../src/torture/servers/find.ts';

const run = promisify(execFile);

/** One question to a model, and the answer that it must give. */
export interface Question {
  readonly model: 'lease' | 'handoff' | 'redlock';
  readonly asks: string;
  /** What is assumed, or is left out, by the switches of the model. */
  readonly given: string;
  readonly switches: readonly string[];
  readonly answer: 'holds' | 'is violated';
}

const TRUST = 'two never trust their holds at once';
const WRITES = 'no write comes after the write of a later holder';
const SERVED = 'every waiter that lives gets the lock';
const FENCES = 'a fence is new, and above those of earlier grants';

export const QUESTIONS: readonly Question[] = [
  {
    model: 'lease',
    asks: TRUST,
    given: 'the local deadline comes first',
    switches: ['CHECK_TRUST'],
    answer: 'holds',
  },
  {
    model: 'lease',
    asks: TRUST,
    given: 'the store lets a lease expire early',
    switches: ['CHECK_TRUST', 'EARLY_EXPIRY'],
    answer: 'is violated',
  },
  {
    model: 'lease',
    asks: WRITES,
    given: 'the local deadline comes first, no fence',
    switches: ['CHECK_WRITES'],
    answer: 'is violated',
  },
  { model: 'lease', asks: WRITES, given: 'a fence', switches: ['CHECK_WRITES', 'FENCED'], answer: 'holds' },
  {
    model: 'lease',
    asks: WRITES,
    given: 'a fence, and the store lets a lease expire early',
    switches: ['CHECK_WRITES', 'FENCED', 'EARLY_EXPIRY'],
    answer: 'holds',
  },
  {
    model: 'lease',
    asks: WRITES,
    given: 'a fence that is checked in a step before the write',
    switches: ['CHECK_WRITES', 'FENCED', 'TWO_STEPS'],
    answer: 'is violated',
  },
  { model: 'handoff', asks: SERVED, given: 'lost messages, one dead process', switches: [], answer: 'holds' },
  {
    model: 'handoff',
    asks: SERVED,
    given: 'wake-ups alone, and none is lost',
    switches: ['NO_RETRY', 'RELIABLE'],
    answer: 'holds',
  },
  {
    model: 'handoff',
    asks: SERVED,
    given: 'wake-ups alone, which may be lost',
    switches: ['NO_RETRY'],
    answer: 'is violated',
  },
  {
    model: 'handoff',
    asks: SERVED,
    given: 'the queue position of a dead waiter stays',
    switches: ['NO_POSITION_EXPIRY'],
    answer: 'is violated',
  },
  {
    model: 'handoff',
    asks: SERVED,
    given: 'the lease of a dead holder stays',
    switches: ['NO_LEASE_EXPIRY'],
    answer: 'is violated',
  },
  {
    model: 'redlock',
    asks: FENCES,
    given: 'a node lets a claim expire early',
    switches: [],
    answer: 'holds',
  },
  {
    model: 'redlock',
    asks: FENCES,
    given: 'the greatest vote instead of a second round',
    switches: ['MAXIMUM'],
    answer: 'is violated',
  },
  {
    model: 'redlock',
    asks: FENCES,
    given: 'a node restarts without its data',
    switches: ['LOST_DATA'],
    answer: 'is violated',
  },
];

export interface Answer {
  readonly answer: 'holds' | 'is violated';
  readonly states: number;
  /** What was violated, as the checker says it; empty when it holds. */
  readonly violation: string;
}

/** Searches every state that the model can reach. */
export async function check({ model, switches }: Question): Promise<Answer> {
  const spin = findProgram({ title: 'Spin', binary: 'spin', packages: ['spin'] });
  const gcc = findProgram({ title: 'GCC', binary: 'gcc', packages: ['gcc', 'libc6-dev'] });
  const cwd = await mkdtemp(join(tmpdir(), 'holdfast-model-'));
  try {
    const source = fileURLToPath(new URL(`${model}.pml`, import.meta.url));
    await run(spin, [...switches.map((name) => `-D${name}`), '-a', source], { cwd });
    // A property of whole runs needs fairness: a process that can always go on does so in the end.
    const isLiveness = model === 'handoff';
    const defines = isLiveness ? ['-DNFAIR=4'] : ['-DSAFETY', '-DCOLLAPSE'];
    await run(gcc, ['-O1', '-w', ...defines, '-o', 'pan', 'pan.c'], { cwd });
    const options = isLiveness ? ['-a', '-f', '-N', 'served'] : [];
    const { stdout } = await run(join(cwd, 'pan'), ['-m100000', ...options], { cwd });
    return answerIn(stdout);
  } finally {
    await rm(cwd, { recursive: true, force: true });
  }
}

function answerIn(output: string): Answer {
  const errors = Number(/errors: (\d+)/.exec(output)?.[1]);
  const states = Number(/(\d+) states, stored/.exec(output)?.[1]);
  // A search that gave up has shown nothing.
  if (!(errors >= 0) || !(states > 0) || /max search depth too small|out of memory/.test(output))
    throw new Error(`the search did not end:\n${output}`);
  const violation = /pan:1: (.*)/.exec(output)?.[1] ?? '';
  return { answer: errors === 0 ? 'holds' : 'is violated', states, violation };
}
