/** A defect of etcd's releases that affects locks. */
interface Defect {
  /** The first minor version of etcd 3 that has it. */
  readonly since: number;
  /** For each minor version, the release in which it is fixed. Later minor versions never had it. */
  readonly fixed: Readonly<Record<number, number>>;
  /** What it does to locks, as a sentence. */
  readonly means: string;
  /** Fences can repeat or go back. */
  readonly breaksFences?: boolean;
}

/** From the release notes of etcd 3.4, 3.5 and 3.6. Each names its issue or pull request. */
const DEFECTS: readonly Defect[] = [
  {
    since: 5,
    fixed: { 5: 6 },
    means: 'After a crash, members can disagree about revisions, which are the fences (etcd #13908, #14733).',
    breaksFences: true,
  },
  {
    since: 4,
    fixed: { 4: 31, 5: 13 },
    means:
      'A leader that was paused can revoke leases that live on at its successor, so that a hold ends early ' +
      'and its holder learns of it at the next renewal (etcd #15247).',
  },
  {
    since: 4,
    fixed: { 4: 38, 5: 23, 6: 5 },
    means: 'A keep-alive can succeed for a lease that was just revoked (etcd #20590).',
  },
  {
    since: 4,
    fixed: { 4: 31, 5: 13 },
    means: 'A watch can lose events after a compaction, and then a waiter polls (etcd #17610).',
  },
  {
    since: 4,
    fixed: { 4: 19, 5: 5 },
    means:
      'With authentication, a member that was restored from a snapshot may never end a lease: a dead ' +
      'holder keeps its locks (etcd #13205).',
  },
];

/** `null`: older than 3.4. A newer major version counts as a minor version above all of etcd 3. */
function parse(version: string): { readonly minor: number; readonly patch: number } | null {
  const [major = 0, minor = 0, patch = 0] = version.split(/[.+-]/).map(Number);
  if (major > 3) return { minor: Number.POSITIVE_INFINITY, patch };
  return major === 3 && minor >= 4 ? { minor, patch } : null;
}

/** `3.4.23`: 3.4 or newer. */
export function isSupported(version: string): boolean {
  return parse(version) !== null;
}

/** The defects that a release has, and the release of the same minor version without them. */
export function defectsOf(version: string) {
  const { minor, patch } = parse(version) ?? { minor: 0, patch: 0 };
  const found = DEFECTS.filter(({ since, fixed }) => minor >= since && patch < (fixed[minor] ?? 0));
  const fixedPatch = Math.max(0, ...found.map(({ fixed }) => fixed[minor] ?? 0));
  return {
    means: found.map(({ means }) => means),
    breaksFences: found.some(({ breaksFences }) => breaksFences === true),
    fixedIn: `3.${minor}.${fixedPatch}`,
  };
}
