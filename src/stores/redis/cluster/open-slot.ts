import { StoreError } from '../../../errors.ts';
import { renewPlainScript, renewScript } from '../../../generated/redis-scripts.ts';
import type { ClaimRef, RenewChange, RenewOutcome } from '../../../store/store.ts';
import type { Keys } from '../keys.ts';
import type { ReadinessCheck } from '../readiness-check.ts';

/** How much longer than the hold its note is kept. */
const NOTE_SPARE_MS = 30_000;

/** The slot of the lock is being moved, and the node does not have all keys of the command. */
function isTryAgain(failure: unknown): boolean {
  const cause = failure instanceof StoreError ? failure.cause : null;
  return cause instanceof Error && cause.message.startsWith('TRYAGAIN');
}

/** A renewal is not tried again in the same way: `renewInOpenSlot` names fewer keys. */
export function isRenewal(args: readonly string[]): boolean {
  return args[0] === renewScript.sha || args[0] === renewScript.text;
}

/**
 * Renews a hold if `failure`, the error of the renewal that named all keys, says that its slot is
 * being moved. A slot may stay open for longer than any TTL, and a node that moves or receives it
 * runs no command that names a key which it does not have. Most holds have only their plain key.
 */
export async function renewInOpenSlot(
  readiness: ReadinessCheck,
  keys: Keys,
  { name, id }: ClaimRef,
  { ttlMs, note }: RenewChange,
  failure: unknown,
  signal: AbortSignal | undefined,
): Promise<RenewOutcome> {
  // A note is stored in another key than the hold.
  if (!isTryAgain(failure) || note !== undefined) throw failure;
  const { plain, queue, info } = keys.of(name);
  const renewed = String(await readiness.run(renewPlainScript, [plain], [`${ttlMs}`, id], signal));
  if (renewed === '2') await readiness.send('pexpire', [info, `${ttlMs + NOTE_SPARE_MS}`, 'GT'], signal);
  // Readers and permits have all three keys. Their renewal failed because it shared a call.
  const reply =
    renewed === '-'
      ? String(await readiness.run(renewScript, [plain, queue, info], [`${ttlMs} 0 ${id}`], signal))
      : renewed;
  if (reply.startsWith('!')) throw failure;
  return reply === '0' ? { held: false } : { held: true, validForMs: ttlMs };
}
