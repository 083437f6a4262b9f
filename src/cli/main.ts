#!/usr/bin/env node
import { GuardedCommand } from './guarded-command.ts';

// The guard is a process of its own and takes longest to start. So it is started before anything else is even loaded, and sent away again if it is not needed.
const guard = process.argv[2] === 'run' && process.argv.includes('--') ? new GuardedCommand() : null;

/** The timers of the core do not keep a process alive; here something is always still to be done until it is done. */
setInterval(() => {}, 60_000);

const { commandLine } = await import('./command-line.ts');
await commandLine(guard);
guard?.dismiss();
// What is left is background work that nobody waits for.
process.exit();
