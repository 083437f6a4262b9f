import { execFileSync } from 'node:child_process';
import { etcdRecipe } from '../../../src/torture/servers/etcd.ts';
import { findProgram } from '../../../src/torture/servers/find.ts';
import { mysqlRecipe } from '../../../src/torture/servers/mysql.ts';
import { postgresRecipe } from '../../../src/torture/servers/postgres.ts';
import { redisRecipe } from '../../../src/torture/servers/redis.ts';
import type { Recipe } from '../../../src/torture/servers/server.ts';

const RECIPES: readonly (readonly [title: string, recipe: () => Recipe])[] = [
  ['Redis', redisRecipe],
  ['PostgreSQL', () => postgresRecipe({}, true)],
  ['MariaDB', () => mysqlRecipe({}, true)],
  ['etcd', etcdRecipe],
];

/** `Redis 7.0.15`, and so on, of the servers that are installed. ZooKeeper's program does not tell. */
export function serverVersions(): string[] {
  return RECIPES.map(([title, recipe]) => {
    const said = execFileSync(findProgram(recipe()), ['--version'], { encoding: 'utf8' });
    return `${title} ${/\d+\.\d+(?:\.\d+)?/.exec(said)?.[0] ?? 'unknown'}`;
  });
}
