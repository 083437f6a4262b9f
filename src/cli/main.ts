#!/usr/bin/env node
import { flushed } from './flushed.ts';
import { GuardedCommand } from './guarded-command.ts';

// The guard is a process of its own and takes longest to start. It is started before anything else
// is loaded, and ended again if it is not needed.
const isRun = ['run', 'once', 'elect'].includes(process.argv[2] ?? '');
const guard = isRun && process.argv.includes('--') ? new GuardedCommand() : null;

/**
 * The timers of the core do not keep a process alive, but the command line must not end before its
 * work is done.
 */
setInterval(() => {}, 60_000);

async function main(): Promise<void> {
  const { runVerb } = await import('./run-verb.ts');
  await runVerb(guard);
  guard?.dismiss();
  // What a signal has ended does not wait for a reader that may have stopped reading.
  const isEndedBySignal = Number(process.exitCode) > 128;
  if (!isEndedBySignal) await flushed();
  // Only background work is left.
  process.exit();
}

void main();
