import { connect } from 'node:net';
import type { Clock } from '../../clock.ts';
import {
  type Check,
  type DiagnoseContext,
  type Finding,
  fail,
  ok,
  runCheck,
  unknown,
  type Verdict,
  warn,
} from '../../store/finding.ts';
import { judgeVoters } from '../shared/voters.ts';
import { isNoAuth, isNoNode } from './calls.ts';
import { type AclEntry, CREATE, PERMISSION } from './client.ts';
import type { Session } from './session.ts';

const VERSION_MIN = [3, 5] as const;
/** An election takes about a second, and a hold has somewhat more than half of its session. */
const SESSION_MIN_MS = 5_000;
/** Where the members keep their configuration. */
const CONFIG = '/zookeeper/config';
const PROBE = 'holdfast-doctor';
/** How long a member may take to answer. */
const ANSWER_MS = 1_000;
/** An answer to `srvr` is shorter than this. */
const LENGTH_MAX = 10_000;

/** A member's answer to the four-letter command `srvr`. */
interface ServerStatus {
  /** For example `3.8.0`. `null` when the member gave no version, or `srvr` is not in its whitelist. */
  readonly version: string | null;
  /** `leader`, `follower`, `observer`, `standalone`, `read-only`; `null`: not known. */
  readonly mode: string | null;
  /** Whether the member accepts writes. `null` when unknown. */
  readonly isServing: boolean | null;
}

/** `root`: the node above all lock nodes. */
export async function diagnose(
  session: Session,
  root: string,
  context: DiagnoseContext,
): Promise<readonly Finding[]> {
  const reports = await Promise.all(session.client.servers.map((member) => askServer(member, context.clock)));
  const requestedMs = session.client.requestedTimeoutMs;
  const grantedMs = session.client.raw.getSessionTimeout();
  const checks: Check[] = [
    { check: 'zookeeper-version', run: () => judgeVersions(reports) },
    { check: 'zookeeper-serving', run: () => judgeServing(reports) },
    { check: 'zookeeper-members', run: async () => judgeMembers(await readConfig(session)) },
    { check: 'zookeeper-session-limit', run: () => judgeSessionLimit(requestedMs, grantedMs) },
    { check: 'zookeeper-session', run: () => judgeSession(grantedMs, context.ttlMs) },
    { check: 'zookeeper-acl', run: () => checkAcl(session, root) },
  ];
  return await Promise.all(checks.map(({ check, run }) => runCheck(context, check, run)));
}

/** Asks one member over a connection of its own. Never rejects. */
export async function askServer(
  { host, port }: { readonly host: string; readonly port: number },
  clock: Clock,
): Promise<ServerStatus> {
  const answer = await new Promise<string>((resolve) => {
    let text = '';
    const socket = connect(port, host, () => socket.write('srvr'));
    const timer = clock.startTimer(ANSWER_MS, () => socket.destroy());
    socket.on('data', (data) => {
      text += data.toString();
      if (text.length > LENGTH_MAX) socket.destroy();
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      timer.cancel();
      resolve(text);
    });
  });
  const version = /^Zookeeper version: (\d+\.\d+\.\d+)/m.exec(answer)?.[1] ?? null;
  const mode = /^Mode: (\S+)/m.exec(answer)?.[1] ?? null;
  const isHidden = answer.includes('not in the whitelist');
  return { version, mode, isServing: isHidden ? null : mode !== null && mode !== 'read-only' };
}

export function judgeVersions(reports: readonly ServerStatus[]): Verdict {
  const versions = [...new Set(reports.flatMap(({ version }) => version ?? []))].sort();
  if (versions.length === 0)
    return unknown(
      'no member answers the four-letter word srvr',
      'The store needs ZooKeeper 3.5 or newer, which cannot be seen here.',
      'Allow it: 4lw.commands.whitelist=srvr.',
    );
  const found = `ZooKeeper ${versions.join(' and ')}`;
  const isOld = (version: string): boolean => {
    const [major = 0, minor = 0] = version.split('.').map(Number);
    return major < VERSION_MIN[0] || (major === VERSION_MIN[0] && minor < VERSION_MIN[1]);
  };
  if (!versions.some(isOld))
    return ok(found, 'The store has what it needs for exclusion, fences and handoff.');
  return fail(found, 'The store was not made for this version.', 'Use ZooKeeper 3.5 or newer.');
}

export function judgeServing(reports: readonly ServerStatus[]): Verdict {
  const known = reports.filter(({ isServing }) => isServing !== null);
  const serving = known.filter(({ isServing }) => isServing === true);
  if (known.length === 0)
    return unknown(
      'no member says whether it serves',
      'Whether the loss of another member ends all grants cannot be seen here.',
      'Allow it: 4lw.commands.whitelist=srvr.',
    );
  const of = `${serving.length} of the ${known.length} members that the client knows`;
  if (serving.length === known.length) return ok(`${of} serve`, 'The client can go on with any of them.');
  const modes = known.flatMap(({ mode }) => mode ?? []);
  const readOnly = modes.includes('read-only') ? '; one serves read-only clients' : '';
  return warn(
    `${of} serve${readOnly}`,
    'Locks are granted while a majority serves. Until then, the loss of another member may end all grants ' +
      'and renewals.',
    'Start the members that are down, or repair the network between the members.',
  );
}

/** `null`: the configuration cannot be read. */
async function readConfig(session: Session): Promise<string | null> {
  try {
    return (await session.calls.getData(CONFIG))?.text ?? null;
  } catch (error) {
    if (isNoAuth(error)) return null;
    throw error;
  }
}

/** `config`: the content of `/zookeeper/config`; empty on a standalone server. */
export function judgeMembers(config: string | null): Verdict {
  if (config === null)
    return unknown(
      `${CONFIG} cannot be read`,
      'How many members may fail cannot be seen here.',
      'Let the user read it, and name a client without a chroot.',
    );
  const servers = config.split('\n').filter((line) => line.startsWith('server.'));
  const observers = servers.filter((line) => line.includes(':observer')).length;
  return judgeVoters(
    Math.max(servers.length - observers, 1),
    { count: observers, do: 'observe' },
    'While this member is down nothing is granted. A restart that takes longer than a session ends every ' +
      'hold.',
  );
}

function judgeSessionLimit(requestedMs: number | null, grantedMs: number): Verdict {
  if (requestedMs === null || requestedMs === grantedMs)
    return ok(`a session lasts ${grantedMs} ms`, 'The server has agreed to what was asked for.');
  const limit = grantedMs < requestedMs ? 'maxSessionTimeout' : 'minSessionTimeout';
  return warn(
    `a session lasts ${grantedMs} ms; ${requestedMs} ms were asked for`,
    grantedMs < requestedMs
      ? 'A process that is silent for longer than the session loses its holds sooner than intended.'
      : 'A process that dies keeps its locks for longer than intended.',
    `Change ${limit} of the members, or the session time-out of the client (sessionMs in the URL).`,
  );
}

function judgeSession(grantedMs: number, ttlMs: number): Verdict {
  const found = `a session lasts ${grantedMs} ms; ttlMs is ${ttlMs}`;
  if (grantedMs < SESSION_MIN_MS)
    return warn(
      found,
      'An election takes about a second, and until there is a leader nothing can be confirmed: holds can ' +
        'be lost when a leader dies.',
      `Ask for sessions of at least ${SESSION_MIN_MS} ms (sessionMs in the URL).`,
    );
  if (grantedMs > ttlMs)
    return warn(
      found,
      'ZooKeeper does not know ttlMs: the locks of a process that dies are handed on only when its session ' +
        'ends.',
      'Ask for a session as long as the TTL (sessionMs in the URL), or raise ttlMs.',
    );
  return ok(found, 'The locks of a process that dies are handed on when its session ends.');
}

async function checkAcl(session: Session, root: string): Promise<Verdict> {
  const { path, above } = await probePath(session, root);
  if (!(await mayCreate(session, path)))
    return fail(
      `the client may not create nodes under ${above}`,
      'No lock can be acquired.',
      `Give the client the permission to create and delete under ${above}, or its user and password.`,
    );
  const isOpen = (await readAcl(session, above)).some(
    ({ permission, id }) => id.scheme === 'world' && (permission & PERMISSION.delete) !== 0,
  );
  if (isOpen)
    return ok(
      `${above} is open to every client`,
      'Locks can be acquired. Every client of the ensemble can also remove them.',
    );
  return ok(`${above} is open to some clients only`, 'Locks can be acquired.');
}

/** A node that could be created for a lock, and the node above it, which exists. */
async function probePath(session: Session, root: string): Promise<{ path: string; above: string }> {
  let [path, above] = [`${root === '/' ? '' : root}/${PROBE}`, root];
  while (above !== '/' && (await session.calls.exists(above)) === null) {
    path = above;
    above = above.slice(0, above.lastIndexOf('/')) || '/';
  }
  return { path, above };
}

/**
 * Whether the client may create this node, which must not exist. Creates nothing: the transaction also
 * checks for a child, which a new node does not have.
 */
async function mayCreate(session: Session, path: string): Promise<boolean> {
  try {
    await session.calls.multi((transaction) =>
      transaction.create(path, Buffer.alloc(0), undefined, CREATE.persistent).check(`${path}/none`),
    );
  } catch (error) {
    if (isNoAuth(error)) return false;
    if (!isNoNode(error)) throw error;
  }
  return true;
}

/** Empty when the list cannot be read. */
async function readAcl(session: Session, path: string): Promise<readonly AclEntry[]> {
  try {
    return await session.calls.getAcl(path);
  } catch (error) {
    if (isNoAuth(error)) return [];
    throw error;
  }
}
