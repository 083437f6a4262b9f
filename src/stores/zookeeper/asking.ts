import { LineFullError, ModeMismatchError, StoreError } from '../../errors.ts';
import { type Instant, instant } from '../../hold/validity.ts';
import { grantedCount } from '../../store/grant-rule.ts';
import type { ClaimOutcome, ClaimRequest } from '../../store/store.ts';
import { isNoNode } from './calls.ts';
import { Claim } from './claim.ts';
import type { Leaving } from './leaving.ts';
import type { Line } from './line.ts';
import { nodePrefix } from './node-name.ts';
import type { Parts } from './parts.ts';
import type { Session } from './session.ts';

/** How soon a waiter asks again while nothing would wake it, and while something would. */
const POLL_MS = 1_000;
const ASK_AGAIN_MS = 10_000;
const TRIES = 4;

/** `claim`: entering the line, asking again, and finding out what became of a request whose answer was lost. */
export class Asking {
  readonly #parts: Parts;
  readonly #leaving: Leaving;

  constructor(parts: Parts, leaving: Leaving) {
    this.#parts = parts;
    this.#leaving = leaving;
  }

  async claim(request: ClaimRequest, signal: AbortSignal | undefined): Promise<ClaimOutcome> {
    const sent = instant(this.#parts.clock);
    const session = await this.#parts.sessions.ready(signal);
    const claim = this.#claimOf(request, session);
    claim.isLeaving = false;
    for (let tries = 1; tries <= TRIES; tries += 1) {
      const outcome =
        (await this.#askAgain(claim, request, sent)) ?? (await this.#enter(claim, request, sent));
      if (outcome !== null) return outcome;
    }
    throw new StoreError('The claim was removed as soon as it was made', { applied: 'unknown' });
  }

  #claimOf(request: ClaimRequest, session: Session): Claim {
    const { claims, tree } = this.#parts;
    const known = claims.get(request);
    if (known === undefined) return new Claim(request, request.mode, tree.lock(request.name), session);
    if (known.session !== session) known.moveTo(session);
    return known;
  }

  /** `null`: it is not there, as far as anybody knows. */
  async #askAgain(claim: Claim, request: ClaimRequest, sent: Instant): Promise<ClaimOutcome | null> {
    if (this.#parts.claims.get(claim) !== claim) return null;
    // The answer to the request that has made it was lost: it is found by its id and its session.
    if (claim.node === null && !(await this.#leaving.find(claim))) return null;
    const { writes } = claim.session;
    if (claim.isGranted) {
      const { isThere } = await writes.check(claim.path, null);
      if (isThere) return this.#grant(claim, sent);
    } else {
      if (request.wait && (await this.#isStillBehind(claim))) return this.#refuse(claim);
      if (await this.#isNext(claim)) return this.#grant(claim, sent);
      // Sent together and answered in order: the line is not older than the certainty that the claim stands in it.
      const { isThere, line } = await writes.check(claim.path, claim.lock);
      if (isThere && line !== null) return await this.#judge(claim, request, sent, await line, false);
    }
    claim.moveTo(claim.session);
    return null;
  }

  /** Has the claim become a hold, though nobody has asked for it since? */
  async isGrantedNow(claim: Claim): Promise<boolean> {
    if (claim.isGranted) return true;
    if (claim.node === null || claim.fence === null || claim.session.isOver) return false;
    const { isThere, line } = await claim.session.writes.check(claim.path, claim.lock);
    const at = isThere ? ((await line)?.placeOf(claim.id, claim.session.id) ?? -1) : -1;
    claim.isGranted = at >= 0 && (await line)?.judge(at).granted === true;
    if (claim.isGranted) this.#parts.waiters.end(claim);
    return claim.isGranted;
  }

  /** A refusal may be out of date, so the member that we are connected to may answer; or nobody needs to, while it would tell us. */
  async #isStillBehind(claim: Claim): Promise<boolean> {
    const { clock, waiters } = this.#parts;
    if (claim.behind === null) return false;
    if (clock.monotonicMs() < claim.quietUntilMs) return true;
    if (!waiters.isListening(claim)) return false;
    const { calls } = claim.session;
    const found = await Promise.all([
      calls.exists(claim.path),
      calls.exists(`${claim.lock}/${claim.behind}`),
    ]);
    return found.every((created) => created !== null);
  }

  /** Is it next, by what this process knows already? The claim's own node is confirmed by the leader and a majority; that another is gone needs no such confirmation, since none comes back. */
  async #isNext(claim: Claim): Promise<boolean> {
    if (claim.mode.kind === 'permits' || claim.fence === null || !this.#parts.fronts.isRightBehind(claim))
      return false;
    const { writes, calls } = claim.session;
    const [own, ahead] = await Promise.all([
      writes.check(claim.path, null),
      calls.exists(`${claim.lock}/${claim.behind}`),
    ]);
    return own.isThere && ahead === null;
  }

  /** A new claim. `null`: its lock had no node yet, or its node was removed at once; try again. */
  async #enter(claim: Claim, request: ClaimRequest, sent: Instant): Promise<ClaimOutcome | null> {
    const { claims, tree, acl } = this.#parts;
    const { session, lock, id } = claim;
    // One that was evicted may come back as something else.
    claim.mode = request.mode;
    const prefix = nodePrefix(id, session.id, claim.mode);
    claims.add(claim);
    try {
      const entered = await session.writes.enter({ lock, prefix, data: Buffer.from(request.note), acl });
      claim.node = entered.path.slice(lock.length + 1);
      const line = await entered.line;
      if (entered.zxid === line.zxid) claim.fence = entered.zxid;
      return await this.#judge(claim, request, sent, line, true);
    } catch (error) {
      if (isNoNode(error) && claim.node === null) {
        this.#leaving.forget(claim);
        await tree.make(session, lock);
        return null;
      }
      throw this.#failedEntry(claim, error);
    }
  }

  /** What may be there stays known by its id, so that it can be found and released. */
  #failedEntry(claim: Claim, error: unknown): unknown {
    if (!(error instanceof StoreError) || error.applied === 'unknown') return error;
    const isThere = claim.node !== null && this.#parts.claims.get(claim) === claim;
    if (!isThere) this.#leaving.forget(claim);
    return isThere ? new StoreError(error.message, { cause: error, applied: 'unknown' }) : error;
  }

  async #judge(
    claim: Claim,
    request: ClaimRequest,
    sent: Instant,
    line: Line,
    isNew: boolean,
  ): Promise<ClaimOutcome | null> {
    const { session, id } = claim;
    const at = line.placeOf(id, session.id);
    const own = line.claims[at];
    if (own === undefined) {
      claim.moveTo(session);
      return null;
    }
    claim.node = own.node;
    claim.place = own.place;
    this.#leaving.removeGhosts(claim, line);
    if (isNew) await this.#checkLine(claim, request, line, at);
    if (!(await this.#hasFence(claim, request, isNew))) return null;
    const verdict = line.judge(at);
    if (verdict.granted) return this.#grant(claim, sent);
    claim.behind = verdict.behind;
    if (!request.wait) {
      await this.#leaving.withdraw(claim);
      return { granted: false, retryAfterMs: null };
    }
    const spot = verdict.behind === null ? null : { claim, session, path: `${claim.lock}/${verdict.behind}` };
    this.#parts.waiters.aim(claim, spot, 0n);
    return this.#refuse(claim);
  }

  async #checkLine(claim: Claim, { name, mode, wait }: ClaimRequest, line: Line, at: number): Promise<void> {
    const present = line.disagreement(at);
    if (present !== null) {
      await this.#leaving.withdraw(claim);
      throw new ModeMismatchError(name, mode, present);
    }
    const { lineMax } = this.#parts;
    if (!wait || line.claims.length <= lineMax) return;
    const waiting = line.claims.length - grantedCount(line.claims.map((each) => each.mode));
    if (waiting <= lineMax || line.judge(at).granted) return;
    await this.#leaving.withdraw(claim);
    throw new LineFullError(name, lineMax);
  }

  /** Finds the fence out where the answers have not shown it. False: the node is gone. An ensemble that was rebuilt from nothing counts from the beginning, and its fences would be too low. */
  async #hasFence(claim: Claim, { fenceAbove }: ClaimRequest, isNew: boolean): Promise<boolean> {
    claim.fence ??= await claim.session.calls.exists(claim.path);
    const { fence } = claim;
    if (fence === null) {
      claim.moveTo(claim.session);
      return false;
    }
    if (!isNew || fence > fenceAbove) return true;
    await this.#leaving.withdraw(claim);
    throw new StoreError(
      `ZooKeeper is at transaction ${fence}, below fence ${fenceAbove} that was given before: has the ensemble been rebuilt?`,
      { applied: 'no' },
    );
  }

  #grant(claim: Claim, sent: Instant): ClaimOutcome {
    const validForMs = claim.session.leftMs(sent);
    if (validForMs <= 0)
      throw new StoreError('The session was not confirmed in time', { applied: 'unknown' });
    claim.isGranted = true;
    this.#parts.fronts.add(claim);
    this.#parts.waiters.end(claim);
    return { granted: true, fence: claim.fence ?? 0n, validForMs };
  }

  #refuse(claim: Claim): ClaimOutcome {
    const retryAfterMs = this.#parts.waiters.isListening(claim) ? ASK_AGAIN_MS : POLL_MS;
    return { granted: false, retryAfterMs };
  }
}
