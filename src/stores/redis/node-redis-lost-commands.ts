import type { NodeRedisClient } from './node-redis-connection.ts';

/** What node-redis has sent, or is to send. Not part of its public interface. */
interface CommandQueue {
  flushWaitingForReply?(error: Error): void;
}

/**
 * node-redis 5 may write a command to a socket that has just broken, and then waits for its reply.
 * It takes the first reply of the next connection for that one, and each later reply for the
 * command before its own. So it waits for ever for the last reply of its handshake, and never
 * becomes ready again. To prevent that, commands that have no reply when a new connection begins are
 * rejected. Version 6 does so by itself. The result ends that.
 */
export function rejectLostCommands(client: NodeRedisClient, onReconnecting?: () => void): () => void {
  let hasBroken = false;
  const onBreak = (): void => {
    hasBroken = true;
    onReconnecting?.();
  };
  const onConnect = (): void => {
    if (!hasBroken) return;
    hasBroken = false;
    const { _getQueue } = client as { _getQueue?(): CommandQueue };
    _getQueue?.call(client).flushWaitingForReply?.(new Error('The connection broke before the reply'));
  };
  client.on('reconnecting', onBreak);
  client.on('connect', onConnect);
  return () => {
    client.off('reconnecting', onBreak);
    client.off('connect', onConnect);
  };
}
