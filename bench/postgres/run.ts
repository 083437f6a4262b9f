// Measures leases and advisory locks in PostgreSQL against the bare statements and against another
// library, in one run, on a server that writes to the disk. Exits with 1 when a target is missed.
import { startPostgres } from '../../test/support/servers/postgres.ts';
import { misses } from '../redis/measure.ts';
import { type Parts, runParts } from '../shared/run-parts.ts';
import { advisoryFifty, advisoryHundred, advisoryOne } from './advisory.ts';
import { fiftyWaiters, size, tenThousand } from './counted.ts';
import { advisoryHandoff, handoff } from './handoff.ts';
import { singleStatements } from './single-statement.ts';
import { hundred, oneAtATime } from './uncontended.ts';

const PARTS: Parts = {
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

const server = await startPostgres({
  settings: { fsync: 'on', full_page_writes: 'on', shared_buffers: '128MB' },
});
try {
  await runParts(PARTS, () => server.createDatabase());
} finally {
  await server.stop();
}
process.exitCode = misses() === 0 ? 0 : 1;
