// What leases in PostgreSQL cost, against the bare statements and against a peer, all in one run on a server that keeps what it is told. Exits with 1 when a target is missed.
import { startPostgres } from '../../test/support/servers/postgres.ts';
import { misses } from '../redis/measure.ts';
import { advisoryFifty, advisoryHundred, advisoryOne } from './advisory.ts';
import { fiftyWaiters, size, tenThousand } from './counted.ts';
import { advisoryHandover, handover } from './handover.ts';
import { hundred, oneAtATime } from './uncontended.ts';

const PARTS: Readonly<Record<string, (url: string) => Promise<void>>> = {
  one: oneAtATime,
  hundred,
  handover,
  fifty: fiftyWaiters,
  renewals: tenThousand,
  size,
  'advisory-one': advisoryOne,
  'advisory-hundred': advisoryHundred,
  'advisory-handover': advisoryHandover,
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
