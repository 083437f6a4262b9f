import { afterAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import { Connection } from '../../src/stores/mysql/connection.ts';
import { connectorOf } from '../../src/stores/mysql/connector.ts';
import { appliedIn, migrate } from '../../src/stores/mysql/migrate.ts';
import { type Migration, Schema } from '../../src/stores/mysql/schema.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { LeaseStage } from './support/lease-stage.ts';

const stage = await useStage(LeaseStage.start());
const connections: Connection[] = [];
afterAll(async () => {
  for (const connection of connections) await connection.close();
});

async function connect(url: string): Promise<Connection> {
  const connection = await Connection.open(connectorOf(stage.pool(url)), systemClock, () => {});
  connections.push(connection);
  return connection;
}

/** What a later version may have: a migration of two statements that MySQL cannot run twice. */
class LaterSchema extends Schema {
  override get migrations(): readonly Migration[] {
    const statements = [
      'ALTER TABLE holdfast_locks ADD COLUMN later INT NOT NULL DEFAULT 1;',
      'ALTER TABLE holdfast_locks ADD INDEX later_index (later);',
      "INSERT IGNORE INTO holdfast_migrations (id, name) VALUES (2, '0002-later');",
    ];
    return [...super.migrations, { id: 2, statements }];
  }
}

async function count(connection: Connection, variable: string): Promise<number> {
  return Number((await connection.run(`SHOW SESSION STATUS LIKE '${variable}'`)).rows[0]?.[1]);
}

describe('migrations', () => {
  it('that were applied are not run again', async () => {
    const connection = await connect(await stage.server.createDatabase());
    await migrate(connection, new Schema());
    const before = await count(connection, 'Com_create_table');
    await migrate(connection, new LaterSchema());
    expect((await count(connection, 'Com_create_table')) - before).toBe(0);
    expect(await appliedIn(connection, new Schema())).toBe(2);
    // A program of this version finds all that it needs.
    await migrate(connection, new Schema());
  });

  it('that were interrupted go on where they ended', async () => {
    const connection = await connect(await stage.server.createDatabase());
    await migrate(connection, new Schema());
    await connection.run('ALTER TABLE holdfast_locks ADD COLUMN later INT NOT NULL DEFAULT 1');
    expect(await appliedIn(connection, new Schema())).toBe(1);
    await migrate(connection, new LaterSchema());
    expect(await appliedIn(connection, new Schema())).toBe(2);
    const { rows } = await connection.run("SHOW INDEX FROM holdfast_locks WHERE Key_name = 'later_index'");
    expect(rows).toHaveLength(1);
  });

  it('are not run beside a process that runs them and takes long', async () => {
    const url = await stage.server.createDatabase();
    const [slow, waiting] = [await connect(url), await connect(url)];
    const schema = new Schema();
    await slow.run(`SELECT GET_LOCK(${schema.migrationLock}, 0)`);
    await expect(migrate(waiting, schema, 1_000)).rejects.toMatchObject({
      code: 'STORE',
      applied: 'no',
      message: expect.stringContaining('migrating'),
    });
    expect(await appliedIn(waiting, schema)).toBe(0);
    await slow.run(`SELECT RELEASE_LOCK(${schema.migrationLock})`);
    await migrate(waiting, schema, 1_000);
  });
});
