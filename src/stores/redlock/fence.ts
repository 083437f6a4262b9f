/**
 * The fence that a majority of the nodes has stored for one claim; `null` if there is none.
 *
 * Each of these nodes stored the fence while it held the claim, and its counter has been at the
 * fence or above since. Every later claim is granted by a node of that majority, with a fence above
 * its counter. So only the _same_ fence at a majority counts: the greatest of different fences is
 * known to one node alone, and the next majority may not contain that node.
 */
export function agreedFence(fences: readonly bigint[], majority: number): bigint | null {
  const isAgreed = (fence: bigint): boolean => fences.filter((other) => other === fence).length >= majority;
  return fences.find(isAgreed) ?? null;
}

export function greatest(fences: readonly bigint[]): bigint {
  let greatest = 0n;
  for (const fence of fences) if (fence > greatest) greatest = fence;
  return greatest;
}
