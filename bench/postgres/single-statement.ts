// What an operation that is alone in its tick saves by a statement of its own, instead of a batch of
// one. If the target is missed on a quiet machine, those statements are to go.
import { systemClock } from '../../src/clock.ts';
import { connectionFactoryFromUrl } from '../../src/stores/postgres/connection-factory.ts';
import { leasePool } from '../../src/stores/postgres/connection-pool.ts';
import {
  batchStatement,
  claimOperation,
  type Operation,
  statementOf,
} from '../../src/stores/postgres/lease-batch.ts';
import { Schema } from '../../src/stores/postgres/schema.ts';
import { alternate, middle, report } from '../redis/measure.ts';

/** Short rounds, and many: the difference is small, and a busy moment must hit both alike. */
const PAIRS = 20;
const ROUNDS = 150;

export async function singleStatements(url: string): Promise<void> {
  const schema = new Schema();
  const factory = await connectionFactoryFromUrl(url);
  const pool = leasePool(factory, { clock: systemClock, schema, max: 1 });
  await new Promise((resolve) => pool.whenFree(resolve));
  const connection = pool.take(true);
  // Waiting for the disk takes the same time for both, and would hide the difference.
  await connection.run({ text: 'SET synchronous_commit = off' });
  const context = { isSetUp: true, queueMax: 10_000, channel: null };
  const subjects = [
    { name: 'statements of their own', encode: (each: Operation) => statementOf(schema, [each], context) },
    { name: 'batches of one', encode: (each: Operation) => batchStatement(schema, [each], context) },
  ];
  let count = 0;
  const pairs = async ({ encode }: (typeof subjects)[number]): Promise<number[]> => {
    const samples: number[] = [];
    for (let n = 0; n < PAIRS; n += 1) {
      const claim = {
        name: 'bench-single',
        id: `bench:${process.pid}:abcd#0f1e2d3c4b5a.${(count++).toString(36)}`,
        mode: { kind: 'exclusive' },
        ttlMs: 30_000,
        wait: true,
        note: '',
        fenceAbove: 0n,
      } as const;
      const startedMs = performance.now();
      await connection.run(encode(claimOperation(claim)));
      await connection.run(encode({ op: 'd', name: claim.name, id: claim.id }));
      samples.push(performance.now() - startedMs);
    }
    return samples;
  };
  for (const subject of subjects) await pairs(subject);
  const results = await alternate(subjects, ROUNDS, pairs);
  const [own = Number.NaN, batch = Number.NaN] = subjects.map((each) => middle(results.get(each) ?? []));
  console.log(`      statements of their own ${own.toFixed(3)} ms, batches of one ${batch.toFixed(3)} ms`);
  report('batches of one, to statements of their own: p50 of a pair', batch / own, { atLeast: 1.05 });
  pool.giveBack(connection);
  await pool.close();
}
