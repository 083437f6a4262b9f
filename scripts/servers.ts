// `npm run servers`: starts one server of each kind that the tests use, for a person at the keyboard, prints the URLs and stops them all at Ctrl-C.
import { etcdRecipe } from '../test/support/servers/etcd.ts';
import { postgresRecipe } from '../test/support/servers/postgres.ts';
import { redisRecipe } from '../test/support/servers/redis.ts';
import { type Recipe, type Server, startServer } from '../test/support/servers/server.ts';
import { zookeeperRecipe } from '../test/support/servers/zookeeper.ts';

/** A new store adds its recipe here. */
const RECIPES: readonly Recipe[] = [redisRecipe(), postgresRecipe(), etcdRecipe(), zookeeperRecipe()];

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
