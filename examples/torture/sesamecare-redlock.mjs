// @sesamecare-oss/redlock with its default settings, on one Redis or on several.

import { ExecutionError, Redlock } from '@sesamecare-oss/redlock';
import { Redis } from 'ioredis';

export default async ({ url }) => {
  const clients = url
    .replace(/^\w+:\/\//, '')
    .split(',')
    .map((address) => new Redis(`redis://${address}`).on('error', () => {}));
  const redlock = new Redlock(clients);
  redlock.on('error', () => {});
  return {
    name: '@sesamecare-oss/redlock',
    async acquire(lock, ttlMs) {
      try {
        const held = await redlock.acquire([lock], ttlMs);
        return { isHeld: () => held.expiration > Date.now(), release: () => held.release() };
      } catch (error) {
        // It gives up after ten attempts.
        if (error instanceof ExecutionError) return null;
        throw error;
      }
    },
    close: async () => void clients.map((client) => client.disconnect()),
  };
};
