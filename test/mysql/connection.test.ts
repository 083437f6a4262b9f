import mysql from 'mysql2';
import { expect, it } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import {
  Connection,
  type ConnectionFactory,
  type DriverConnection,
} from '../../src/stores/mysql/connection.ts';
import { connectionFactoryOf } from '../../src/stores/mysql/connection-factory.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { later } from '../support/waiting/eventually.ts';
import { LeaseStage } from './support/lease-stage.ts';

const stage = await useStage(LeaseStage.start());

/** The promises of mysql2 before 3.24 leave out of an error whether it is fatal. */
const withoutFatal =
  (factory: ConnectionFactory): ConnectionFactory =>
  async () => {
    const own = await factory();
    const promises = own.promise();
    const stripped = Object.assign(Object.create(promises), {
      query: (sql: string) =>
        promises.query(sql).catch((error: object) => {
          throw Object.assign(error, { fatal: undefined });
        }),
    });
    return Object.assign(Object.create(own), { promise: () => stripped }) as DriverConnection;
  };

it.each([
  ['the library says that the error is fatal', (factory: ConnectionFactory) => factory],
  ['the library does not say so', withoutFatal],
])('a connection that breaks during a statement is not used again: %s', async (_case, wrap) => {
  let closed = 0;
  const factory = wrap(connectionFactoryOf(stage.pool(stage.url)));
  const connection = await Connection.open(factory, {
    clock: systemClock,
    onClose: () => {
      closed += 1;
    },
  });
  const [[id] = []] = await connection.run({ text: 'SELECT CONNECTION_ID()' });
  const running = later(connection.run({ text: 'SELECT SLEEP(30)' }));
  await stage.admin.query(`KILL CONNECTION ${Number(id)}`);
  await expect(running).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
  expect(connection.isOpen).toBe(false);
  expect(closed).toBe(1);
});

it('a connection makes no code from text where the pool of the user does not', async () => {
  const pool = mysql.createPool({ uri: stage.url, disableEval: true });
  const own = await connectionFactoryOf(pool)();
  expect(own).toMatchObject({ config: { disableEval: true } });
  await own.promise().end();
  await pool.promise().end();
});
