import { EventEmitter } from 'node:events';
import { expect, it } from 'vitest';
import {
  type NodeRedisSentinel,
  NodeRedisSentinelConnection,
} from '../../src/stores/redis/node-redis-sentinel-connection.ts';

it('is not up before the client has subscribed, also when the master changes meanwhile', async () => {
  let subscribed = (): void => {};
  const subscribing = new Promise<void>((resolve) => {
    subscribed = resolve;
  });
  // Only the order of the client's events matters here: `faults/redis/sentinel` has real Sentinels.
  const client = Object.assign(new EventEmitter(), { subscribe: () => subscribing });
  const connection = new NodeRedisSentinelConnection(client as unknown as NodeRedisSentinel);
  const log: string[] = [];
  connection.listen(['channel'], {
    onMessage: () => {},
    onUp: () => log.push('up'),
    onDown: () => log.push('down'),
    onEnd: () => log.push('end'),
  });
  client.emit('topology-change');
  expect(log).toEqual([]);
  subscribed();
  await subscribing;
  expect(log).toEqual(['up']);
  client.emit('topology-change');
  expect(log).toEqual(['up', 'down', 'up']);
});
