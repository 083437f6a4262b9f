import { LineFullError, ModeMismatchError, StoreError } from '../../errors.ts';
import { type Instant, instant } from '../../hold/validity.ts';
import { grantedCount } from '../../store/grant-rule.ts';
import type { ClaimOutcome, ClaimRequest } from '../../store/store.ts';
import { isNoNode } from './calls.ts';
import { Claim } from './claim.ts';
import type { Leaving } from './leaving.ts';
import { Line } from './line.ts';
import { type NodeName, nodePrefix } from './node-name.ts';
import type { Parts } from './parts.ts';
import type { Session } from './session.ts';
import type { Count } from './writes.ts';

/** How soon a waiter asks again while nothing would wake it, and while something would: then the later the more there are, so that a crowd does not ask all the time. */
const POLL_MS = 1_000;
const ASK_AGAIN_MS = { min: 10_000, max: 60_000, each: 10 };
const TRIES = 4;
/** A line that is no longer than this is read by whoever enters it: that is cheap, and shows what is so. */
const SHORT_LINE = 64;

/** `claim`: entering the line, asking again, and finding out what became of a request whose answer was lost. */
export class Asking {
  readonly #parts: Parts;
  readonly #leaving: Leaving;

  constructor(parts: Parts, leaving: Leaving) {
    this.#parts = parts;
    this.#leaving = leaving;
  }

  claim(request: ClaimRequest, signal: AbortSignal | undefined): Promise<ClaimOutcome> {
    const sent = instant(this.#parts.clock);
    const { sessions } = this.#parts;
    // Spelled out: each promise that need not be is felt where a lock is taken and given back at once.
    const session = sessions.usable;
    if (session !== null && signal?.aborted !== true) return this.#claimIn(session, request, sent);
    return sessions.ready(signal).then((found) => this.#claimIn(found, request, sent));
  }

  #claimIn(session: Session, request: ClaimRequest, sent: Instant): Promise<ClaimOutcome> {
    const claim = this.#claimOf(request, session);
    claim.isLeaving = false;
    // What is held goes before what waits.
    if (claim.isGranted) return this.#ask(claim, request, sent);
    if (request.wait && this.#isQuiet(claim)) return Promise.resolve(this.#refuse(claim));
    return session.gate.run(() => this.#ask(claim, request, sent), claim.node !== null);
  }

  async #ask(claim: Claim, request: ClaimRequest, sent: Instant): Promise<ClaimOutcome> {
    for (let tries = 1; tries <= TRIES; tries += 1) {
      const found = claim.isKnown ? await this.#askAgain(claim, request, sent) : null;
      const outcome = found ?? (await this.#enter(claim, request, sent));
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
    // The answer to the request that has made it was lost: it is found by its id and its session.
    if (claim.node === null && !(await this.#leaving.find(claim))) return null;
    const { writes } = claim.session;
    if (claim.isGranted) {
      const { isThere } = await writes.check(claim.path, null);
      if (isThere) return this.#grant(claim, sent);
    } else {
      if (request.wait && (await this.#isStillBehind(claim))) return this.#refuse(claim);
      if (await this.#isNext(claim)) return this.#grantNext(claim, sent);
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
    claim.isFirst = claim.isGranted && at === 0;
    if (claim.isGranted) this.#parts.waiters.end(claim);
    return claim.isGranted;
  }

  /** Nothing can have changed of which we would not have been told. */
  #isQuiet(claim: Claim): boolean {
    return claim.behind !== null && this.#parts.clock.monotonicMs() < claim.quietUntilMs;
  }

  /** A refusal may be out of date, so the member that we are connected to may answer; or nobody needs to, while it would tell us. */
  async #isStillBehind(claim: Claim): Promise<boolean> {
    if (claim.behind === null) return false;
    if (this.#isQuiet(claim)) return true;
    // Who is not told looks for itself, but for those of a crowd: each would read the line of all of them.
    const { claims, waiters } = this.#parts;
    if (!waiters.isListening(claim) && claims.size <= SHORT_LINE) return false;
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
    const { claims, tree, acl, sessions } = this.#parts;
    const { session, lock, id } = claim;
    // Other stores may go on with the session, and would keep what a closed one leaves in it.
    if (sessions.isClosed) throw new StoreError('The store is closed', { applied: 'no' });
    // One that was evicted may come back as something else.
    claim.mode = request.mode;
    claim.fenceAbove = request.fenceAbove;
    const prefix = nodePrefix(id, session.id, claim.mode);
    claims.add(claim);
    const { vacancies, connection } = session;
    const vacancy = vacancies.take(lock);
    claim.lockNode = vacancies.nodeOf(lock);
    const isLikelyAlone = vacancy?.isLikely === true;
    try {
      const entry = { lock, prefix, data: Buffer.from(request.note), acl, isLikelyAlone };
      const entered = await session.writes.enter(entry);
      const node = entered.path.slice(lock.length + 1);
      claim.node = node;
      claim.place = Number(node.slice(prefix.length));
      claim.fence = entered.zxid;
      if (vacancy !== null && vacancies.isAlone(vacancy, claim.place)) {
        if (!(await this.#hasFence(claim))) return null;
        return this.#grantFirst(claim, sent);
      }
      const counted = await (entered.counted ?? session.writes.count(lock));
      // Nothing has changed between the two, so the node that is watched is the one that has given the place.
      if (counted.zxid === entered.zxid) claim.lockNode ??= counted.lockNode;
      // A client that repeats what was lost with its connection may have put the claim into the line twice.
      const refused = session.connection === connection && this.#refuseBehindOwn(claim, request, counted);
      if (refused) return refused;
      return await this.#judge(claim, request, sent, await this.#lineOf(claim, counted), true);
    } catch (error) {
      if (isNoNode(error) && claim.node === null) {
        this.#leaving.forget(claim);
        await tree.make(session, lock);
        return null;
      }
      throw this.#failedEntry(claim, error);
    }
  }

  /** In a long line, right behind a claim of ours that waits or holds, there is nothing to read: a refusal may be out of date, and the watch on that claim tells. `null`: it is not so. */
  #refuseBehindOwn(claim: Claim, { wait, fenceAbove }: ClaimRequest, { count }: Count): ClaimOutcome | null {
    const ahead = this.#parts.claims.ahead(claim);
    const isStanding = ahead !== null && !ahead.isLeaving && (ahead.isGranted || ahead.behind !== null);
    if (!wait || !isStanding || count <= SHORT_LINE || count - 1 > this.#parts.lineMax) return null;
    const [own, other] = [claim.mode.kind, ahead.mode.kind];
    if (own === 'permits' || other === 'permits' || (own === 'shared' && other === 'shared')) return null;
    if (claim.fence === null || claim.fence <= fenceAbove) return null;
    return this.#refuseBehind(claim, ahead.node);
  }

  /** Who is alone needs no list to know it. */
  async #lineOf({ session, lock, node, fence }: Claim, { count, zxid }: Count): Promise<Line> {
    if (count === 1 && zxid === fence && node !== null) return new Line({ names: [node], zxid });
    return await session.writes.look(lock);
  }

  /** What may be there stays known by its id, so that it can be found and released. */
  #failedEntry(claim: Claim, error: unknown): unknown {
    if (!(error instanceof StoreError) || error.applied === 'unknown') return error;
    const isThere = claim.node !== null && claim.isKnown;
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
    this.#stand(claim, own);
    this.#leaving.removeGhosts(claim, line);
    if (isNew) await this.#checkLine(claim, request, line, at);
    if (!(await this.#hasFence(claim))) return null;
    const verdict = line.judge(at);
    if (verdict.granted) return at === 0 ? this.#grantFirst(claim, sent) : this.#grant(claim, sent);
    if (request.wait) return this.#refuseBehind(claim, verdict.behind);
    await this.#leaving.withdraw(claim);
    return { granted: false, retryAfterMs: null };
  }

  /** Of a claim that stands in line twice, the first counts. */
  #stand(claim: Claim, { node, place }: NodeName): void {
    if (claim.node !== null && claim.node !== node) claim.fence = null;
    claim.node = node;
    claim.place = place;
  }

  async #checkLine(claim: Claim, { name, mode, wait }: ClaimRequest, line: Line, at: number): Promise<void> {
    const present = line.disagreement(at);
    if (present !== null) {
      await this.#leaving.withdraw(claim);
      throw new ModeMismatchError(name, mode, present);
    }
    const { lineMax } = this.#parts;
    if (!wait || at < lineMax) return;
    // Who came later does not make the line full for this one: of several that come at once, as many stay as there is room for.
    const upTo = line.claims.slice(0, at + 1);
    if (upTo.length - grantedCount(upTo.map((each) => each.mode)) <= lineMax) return;
    await this.#leaving.withdraw(claim);
    throw new LineFullError(name, lineMax);
  }

  /** Finds the fence out where the answers have not shown it. False: the node is gone. An ensemble that was rebuilt from nothing counts from the beginning, and its fences would be too low. */
  async #hasFence(claim: Claim): Promise<boolean> {
    claim.fence ??= await claim.session.calls.exists(claim.path);
    const { fence, fenceAbove } = claim;
    if (fence === null) {
      claim.moveTo(claim.session);
      return false;
    }
    if (fence > fenceAbove) return true;
    await this.#leaving.withdraw(claim);
    throw new StoreError(
      `ZooKeeper is at transaction ${fence}, below fence ${fenceAbove} that was given before: has the ensemble been rebuilt?`,
      { applied: 'no' },
    );
  }

  /** What it stood behind is gone. Ahead of a reader there may be others, who have come in beside it and may stay longer. */
  #grantNext(claim: Claim, sent: Instant): ClaimOutcome {
    return claim.mode.kind === 'exclusive' ? this.#grantFirst(claim, sent) : this.#grant(claim, sent);
  }

  /** Nothing is ahead of it. */
  #grantFirst(claim: Claim, sent: Instant): ClaimOutcome {
    claim.isFirst = true;
    return this.#grant(claim, sent);
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

  /** `behind`: what has to go first; `null` when several can make room. */
  #refuseBehind(claim: Claim, behind: string | null): ClaimOutcome {
    claim.behind = behind;
    this.#parts.claims.place(claim);
    const spot = behind === null ? null : { claim, session: claim.session, path: `${claim.lock}/${behind}` };
    this.#parts.waiters.aim(claim, spot, 0n);
    return this.#refuse(claim);
  }

  #refuse(claim: Claim): ClaimOutcome {
    const { claims, clock, waiters } = this.#parts;
    if (!waiters.isListening(claim)) return { granted: false, retryAfterMs: POLL_MS };
    const { min, max, each } = ASK_AGAIN_MS;
    // Those who came together do not ask together.
    const share = 0.75 + clock.random() / 4;
    return { granted: false, retryAfterMs: Math.min(Math.max(min, claims.size * each), max) * share };
  }
}
