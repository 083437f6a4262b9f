import { fail, ok, type Verdict } from '../../store/finding.ts';

/** Judges what a database user lacks. `page`: where its privileges are documented. */
export function judgePrivileges(user: string, missing: readonly string[], page: string): Verdict {
  if (missing.length === 0)
    return ok(`${user} has every privilege that the store needs`, 'Locks can be acquired and released.');
  return fail(
    `${user} lacks ${missing.join(', ')}`,
    'Commands fail with a StoreError: locks cannot be acquired, or cannot be renewed and released.',
    `Grant the privileges that ${page} lists.`,
  );
}
