// Planted: a create whose reply was lost is sent again, and the first node stays in front. server: zookeeper
import { setTimeout as sleep } from 'node:timers/promises';
import zookeeper from 'node-zookeeper-client';

export default async ({ url }) => {
  const client = zookeeper.createClient(url.replace('zookeeper://', ''), {
    sessionTimeout: 3_000,
    retries: 0,
  });
  const call = (method, ...args) =>
    new Promise((resolve, reject) => {
      client[method](...args, (error, value) => (error ? reject(error) : resolve(value)));
    });
  let isConnected = false;
  let connectedMs = 0;
  client.on('state', (state) => {
    isConnected = state === zookeeper.State.SYNC_CONNECTED;
  });
  client.connect();
  const again = async (work) => {
    for (let tries = 0; ; tries += 1) {
      const sentMs = performance.now();
      try {
        const value = await Promise.race([
          work(),
          sleep(1_000).then(() => Promise.reject(new Error('late'))),
        ]);
        connectedMs = sentMs;
        return value;
      } catch (error) {
        if (error.name === 'NO_NODE' || error.name === 'NODE_EXISTS') return null;
        if (tries > 30) throw error;
        await sleep(100);
      }
    }
  };
  setInterval(() => void again(() => call('exists', '/')).catch(() => {}), 500).unref();
  const { EPHEMERAL_SEQUENTIAL } = zookeeper.CreateMode;
  return {
    name: 'create sent again without looking for its node',
    async acquire(lock) {
      await again(() => call('mkdirp', `/planted/${lock}`));
      const path = await again(() => call('create', `/planted/${lock}/n-`, EPHEMERAL_SEQUENTIAL));
      for (const endMs = performance.now() + 20_000; performance.now() < endMs; await sleep(30)) {
        const names = (await again(() => call('getChildren', `/planted/${lock}`))) ?? [];
        if (!names.includes(path.split('/').at(-1))) return null;
        if (names.sort()[0] !== path.split('/').at(-1)) continue;
        let isOver = false;
        return {
          isHeld: () => !isOver && isConnected && performance.now() - connectedMs < 1_500,
          release: async () => {
            isOver = true;
            await again(() => call('remove', path));
          },
        };
      }
      await again(() => call('remove', path));
      return null;
    },
    close: async () => client.close(),
  };
};
