import { afterAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import { Connection } from '../../src/stores/mysql/connection.ts';
import { connectionFactoryOf } from '../../src/stores/mysql/connection-factory.ts';
import { Schema } from '../../src/stores/mysql/schema.ts';
import type { Migration } from '../../src/stores/shared/migrated-schema.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { LeaseStage } from './support/lease-stage.ts';

const stage = await useStage(LeaseStage.start());
const connections: Connection[] = [];
afterAll(async () => {
  for (const connection of connections) await connection.close();
});

async function connect(url: string): Promise<Connection> {
  const connection = await Connection.open(connectionFactoryOf(stage.pool(url)), { clock: systemClock });
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
    return [...super.migrations, { id: 2, name: '0002-later', text: statements.join('\n') }];
  }
}

class ImpatientSchema extends Schema {
  protected override readonly waitMs = 1_000;
}

async function count(connection: Connection, variable: string): Promise<number> {
  return Number((await connection.run({ text: `SHOW SESSION STATUS LIKE '${variable}'` }))[0]?.[1]);
}

describe('migrations', () => {
  it('that were applied are not run again', async () => {
    const connection = await connect(await stage.server.createDatabase());
    await new Schema().migrate(connection);
    const before = await count(connection, 'Com_create_table');
    await new LaterSchema().migrate(connection);
    expect((await count(connection, 'Com_create_table')) - before).toBe(0);
    expect(await new Schema().applied(connection)).toBe(2);
    // A program of this version finds all that it needs.
    await new Schema().migrate(connection);
  });

  it('that were interrupted go on where they ended', async () => {
    const connection = await connect(await stage.server.createDatabase());
    await new Schema().migrate(connection);
    await connection.run({ text: 'ALTER TABLE holdfast_locks ADD COLUMN later INT NOT NULL DEFAULT 1' });
    expect(await new Schema().applied(connection)).toBe(1);
    await new LaterSchema().migrate(connection);
    expect(await new Schema().applied(connection)).toBe(2);
    const rows = await connection.run({
      text: "SHOW INDEX FROM holdfast_locks WHERE Key_name = 'later_index'",
    });
    expect(rows).toHaveLength(1);
  });

  it('are not run beside a process that runs them and takes long', async () => {
    const url = await stage.server.createDatabase();
    const [slow, waiting] = [await connect(url), await connect(url)];
    const schema = new ImpatientSchema();
    await slow.run({ text: `SELECT GET_LOCK(${schema.migrationLock}, 0)` });
    await expect(schema.migrate(waiting)).rejects.toMatchObject({
      code: 'STORE',
      applied: 'no',
      message: expect.stringContaining('migrating'),
    });
    expect(await schema.applied(waiting)).toBe(0);
    await slow.run({ text: `SELECT RELEASE_LOCK(${schema.migrationLock})` });
    await schema.migrate(waiting);
  });
});
