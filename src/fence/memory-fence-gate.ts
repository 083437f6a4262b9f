import { assertNotStale, checkFence, type FenceGate } from './fence-gate.ts';

/** A gate in this process's memory: for a resource that only this process writes to, and for tests. It remembers every resource it was asked about. */
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
