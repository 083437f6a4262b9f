import { assertNotStale, checkFence, type FenceGate } from './fence-gate.ts';

/**
 * A fence gate in the memory of this process: for tests, and for a resource that only this process
 * writes to. It remembers every resource that it has checked.
 */
export function memoryFenceGate(): FenceGate {
  const latest = new Map<string, bigint>();
  return {
    async check(resource, fence) {
      checkFence(resource, fence);
      assertNotStale(resource, fence, latest.get(resource) ?? 0n);
      latest.set(resource, fence);
    },
  };
}
