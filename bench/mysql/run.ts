// Measures leases in MariaDB against the bare statements, and waiting for them against GET_LOCK, in one
// run, on a server that writes to the disk. Exits with 1 when a target is missed.
import { startMysql } from '../../test/support/servers/mysql.ts';
import { compare, pairs, throughput } from '../postgres/uncontended.ts';
import { misses, report } from '../redis/measure.ts';
import { type Parts, runParts } from '../shared/run-parts.ts';
import { floor, holdfast } from './contenders.ts';
import { waiting } from './waiting.ts';

const CONTENDERS = [floor, holdfast];

async function one(url: string): Promise<void> {
  const { own, least } = await compare(url, 'ms', pairs, CONTENDERS);
  report('one at a time: p50 of acquire + release, to the floor', own / least, { atMost: 1.25 });
}

async function hundred(url: string): Promise<void> {
  const { own, least } = await compare(url, 'pairs/s', (contender) => throughput(contender, 100), CONTENDERS);
  report('100 tasks on 100 names: throughput, to the floor', own / least, { atLeast: 1.2 });
}

const PARTS: Parts = { one, hundred, waiting };

const server = await startMysql({
  settings: { 'innodb-flush-log-at-trx-commit': '1', 'innodb-doublewrite': '1' },
});
try {
  await runParts(PARTS, () => server.createDatabase());
} finally {
  await server.stop();
}
process.exitCode = misses() === 0 ? 0 : 1;
