// `npm run servers`: starts one server of each kind that the tests use, for a person at the
// keyboard, prints the URLs and stops them all at Ctrl-C.
import { etcdRecipe } from '../src/torture/servers/etcd.ts';
import { mysqlRecipe } from '../src/torture/servers/mysql.ts';
import { postgresRecipe } from '../src/torture/servers/postgres.ts';
import { redisRecipe } from '../src/torture/servers/redis.ts';
import { type Recipe, type Server, startServer } from '../src/torture/servers/server.ts';
import { zookeeperRecipe } from '../src/torture/servers/zookeeper.ts';

process.env.HOLDFAST_INSTALL_SERVERS ??= '1';

/** A new store adds its recipe here. */
const RECIPES: readonly Recipe[] = [
  redisRecipe(),
  postgresRecipe(),
  mysqlRecipe(),
  etcdRecipe(),
  zookeeperRecipe(),
];

const servers: Server[] = [];
for (const recipe of RECIPES) {
  const server = await startServer(recipe);
  servers.push(server);
  console.log(`${recipe.title}: ${server.url}`);
}
console.log('Ctrl-C stops them.');

const stop = async (): Promise<void> => {
  for (const server of servers) await server.stop();
  process.exit(0);
};
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void stop());
// Servers are children without a pipe to us, so something has to keep this process.
setInterval(() => {}, 60_000);
