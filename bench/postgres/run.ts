// Measures leases and advisory locks in PostgreSQL against the bare statements and against another
// library, in one run, on a server that writes to the disk. Exits with 1 when a target is missed.
import { startPostgres } from '../../test/support/servers/postgres.ts';
import { misses } from '../redis/measure.ts';
import { advisoryFifty, advisoryHundred, advisoryOne } from './advisory.ts';
import { fiftyWaiters, size, tenThousand } from './counted.ts';
import { advisoryHandoff, handoff } from './handoff.ts';
import { singleStatements } from './single-statement.ts';
import { hundred, oneAtATime } from './uncontended.ts';

const PARTS: Readonly<Record<string, (url: string) => Promise<void>>> = {
  one: oneAtATime,
  single: singleStatements,
  hundred,
  handoff,
  fifty: fiftyWaiters,
  renewals: tenThousand,
  size,
  'advisory-one': advisoryOne,
  'advisory-hundred': advisoryHundred,
  'advisory-handoff': advisoryHandoff,
  'advisory-fifty': advisoryFifty,
};

const wanted = process.argv.slice(2);
const server = await startPostgres({
  settings: { fsync: 'on', full_page_writes: 'on', shared_buffers: '128MB' },
});
try {
  for (const [name, run] of Object.entries(PARTS)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    console.log(`\n${name}`);
    await run(await server.createDatabase());
  }
} finally {
  await server.stop();
}
process.exitCode = misses() === 0 ? 0 : 1;
