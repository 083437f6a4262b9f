/** The two members of a cluster of three that do not lead. */
export function followersOf<M>(members: readonly M[], leader: M): readonly [M, M] {
  const [a, b] = members.filter((member) => member !== leader);
  if (a === undefined || b === undefined) throw new Error('three members are needed');
  return [a, b];
}
