import type { IncomingMessage } from 'node:http';
import { warnOf } from '../events.ts';
import { RefusedError } from './answers.ts';
import type { Role } from './api.ts';

/** `operate` may evict, `read` may look, `none` gets nothing. */
export type AccessRole = 'operate' | 'read' | 'none';

/** Who calls, for the audit list. */
export interface Caller {
  readonly role: AccessRole;
  /** Shown in the audit list: the name of a user, for example. */
  readonly who?: string | undefined;
}

/** What is known of a request besides the request itself. */
export interface AccessContext {
  /** The request of Node.js when `listener` was called: what a framework has put there, as `user`. */
  readonly incoming?: IncomingMessage | undefined;
}

/** Says what the sender of a request may do. */
export type Access = (
  request: Request,
  context: AccessContext,
) => AccessRole | Caller | Promise<AccessRole | Caller>;

export interface Admitted {
  readonly role: Role;
  readonly who: string | null;
}

const WHO_MAX = 256;

/** Throws `RefusedError` unless the caller may at least read. */
export async function admit(access: Access, request: Request, context: AccessContext): Promise<Admitted> {
  let given: AccessRole | Caller;
  try {
    given = await access(request, context);
  } catch (error) {
    // An answer with a reason could tell a stranger about the users.
    warnOf('access', error);
    throw new RefusedError(500, 'access', 'The check of the access failed.');
  }
  const { role, who } = typeof given === 'object' && given !== null ? given : { role: given };
  // Anything but the two roles is no access, whatever a program in plain JavaScript returns.
  if (role !== 'operate' && role !== 'read')
    throw new RefusedError(403, 'forbidden', 'You have no access to this dashboard.');
  return { role, who: typeof who === 'string' ? who.slice(0, WHO_MAX) : null };
}
