import { rightsScript } from '../../generated/redis-scripts.ts';
import { fail, ok, type Verdict, warn } from '../../store/finding.ts';
import type { RedisConnection } from './connection.ts';
import type { Keys } from './keys.ts';

const ADVICE = 'Give the user the rights that docs/stores/redis.md lists.';

/** Whether the user may run the commands that the locks use, on the keys and channels of the locks. */
export async function checkRights(connection: RedisConnection, keys: Keys): Promise<Verdict> {
  const key = keys.of('').queue;
  const channel = `${connection.keyPrefix}${keys.channelBase}doctor`;
  const rest = ['1', key, keys.publish, channel];
  const script = await allowed(connection.send('eval', [rightsScript.text, ...rest]));
  if (script === null)
    return fail(
      'the user may not run eval, or not with the keys of the locks',
      'No lock can be acquired, renewed or released.',
      ADVICE,
    );
  const denied = (script.reply as unknown[]).map(String);
  if ((await allowed(connection.send('evalsha', [rightsScript.sha, ...rest]))) === null)
    denied.push('evalsha');
  if (denied.length > 0)
    return fail(
      `the user may not run ${denied.join(', ')}`,
      'Locks cannot be acquired, renewed, released or handed to waiters, or not in every mode.',
      ADVICE,
    );
  const scan = await allowed(connection.send('scan', ['0', 'MATCH', key, 'COUNT', '1']));
  return scan === null
    ? warn('the user may not run scan', 'Locks cannot be listed. Otherwise they work.', ADVICE)
    : ok('the user may run every command that the locks use', 'Exclusion, fences and handoff work.');
}

/** `null`: the user has no right to do that. */
async function allowed(sent: Promise<unknown>): Promise<{ readonly reply: unknown } | null> {
  try {
    return { reply: await sent };
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('NOPERM')) return null;
    throw error;
  }
}
