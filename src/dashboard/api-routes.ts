import type { Core } from '../core.ts';
import type { Locks } from '../locks.ts';
import { Groups } from '../telemetry/groups.ts';
import { Recorder } from '../telemetry/recorder.ts';
import { storedName } from '../use.ts';
import type { Admitted } from './access.ts';
import { answer, encodedJson, json, RefusedError } from './answers.ts';
import type { EvictAnswer, SessionInfo } from './api.ts';
import { Audit } from './audit.ts';
import { jsonBody } from './body.ts';
import { Durations } from './durations.ts';
import { EventStream } from './event-stream.ts';
import { checkEvict, evictClaim } from './evict.ts';
import { listLeaders } from './leaders.ts';
import { Leases } from './leases.ts';
import { listLocks, useIn, wholeNumber } from './list-query.ts';
import { lockDetail } from './lock-detail.ts';
import { nameIn } from './lock-name.ts';
import { LockReads } from './lock-reads.ts';
import { packageVersion } from './page.ts';
import { PrometheusMeters } from './prometheus.ts';
import { listsOnlyOwn, type ReadLock } from './scan.ts';
import { ScanLoop } from './scan-loop.ts';
import { listSchedules } from './schedules.ts';
import { Timelines } from './timeline.ts';

const WAITERS = 200;
const WAITERS_MAX = 5_000;

const STATUS: Readonly<Record<EvictAnswer['outcome'], number>> = {
  evicted: 200,
  gone: 409,
  changed: 409,
  unsupported: 501,
  failed: 503,
};

export interface ApiCall {
  readonly request: Request;
  readonly query: URLSearchParams;
  readonly caller: Admitted;
}

type Handler = (call: ApiCall) => Response | Promise<Response>;

/** What the dashboard answers with JSON and events. `api.ts` has the types. */
export class ApiRoutes {
  readonly #core: Core;
  readonly #locks: Locks;
  readonly #timelines = new Timelines();
  readonly #audit = new Audit();
  readonly #durations: Durations;
  readonly #loop: ScanLoop;
  readonly #reads: LockReads;
  readonly #leases = new Leases();
  /** The latest answer that was made of each read, for the other viewers of the lock. */
  readonly #details = new WeakMap<ReadLock, { offset: number; limit: number; text: string }>();
  readonly #events: EventStream;
  readonly #meters = new PrometheusMeters();
  readonly #stopRecording: () => void;

  /** By method and path. */
  readonly routes: ReadonlyMap<string, Handler> = new Map<string, Handler>([
    ['GET /api/session', (call) => this.#session(call)],
    ['GET /api/locks', (call) => this.#list(call)],
    ['GET /api/lock', (call) => this.#detail(call)],
    ['GET /api/events', ({ request }) => this.#stream(request)],
    ['GET /api/schedules', async () => json(listSchedules(this.#core, await this.#loop.recent()))],
    ['GET /api/leaders', async () => json(listLeaders(this.#core, await this.#loop.recent()))],
    ['GET /api/audit', () => json(this.#audit.list())],
    ['POST /api/evict', (call) => this.#evict(call)],
    ['GET /metrics', () => answer(this.#meters.text(), 'text/plain; version=0.0.4; charset=utf-8')],
  ]);

  constructor(core: Core, locks: Locks) {
    this.#core = core;
    this.#locks = locks;
    this.#durations = new Durations(core, locks);
    this.#loop = new ScanLoop(core, this.#leases, {
      onLock: (lock) => this.#timelines.sample(lock, this.#loop.intervalMs),
      onComplete: (locks, startedAtMs) =>
        this.#timelines.sampleFree(locks, startedAtMs, this.#loop.intervalMs),
    });
    this.#reads = new LockReads(core, (lock) => this.#timelines.sample(lock, this.#loop.intervalMs));
    this.#events = new EventStream(core.clock, this.#loop);
    this.#stopRecording = new Recorder(this.#meters, new Groups(this.#meters)).listen(core);
  }

  close(): void {
    this.#events.close();
    this.#loop.close();
    this.#durations.close();
    this.#stopRecording();
  }

  #session({ caller }: ApiCall): Response {
    const { owner, store } = this.#core;
    const info: SessionInfo = {
      ...caller,
      store: store.kind ?? 'other',
      isOrdered: store.traits.ordered,
      listsOnlyOwn: listsOnlyOwn(store),
      owner,
      version: packageVersion(),
    };
    return json(info);
  }

  async #list({ query }: ApiCall): Promise<Response> {
    return json(listLocks(await this.#loop.recent(), query, this.#core.clock.wallMs()));
  }

  async #detail({ query }: ApiCall): Promise<Response> {
    const name = nameIn(query.get('name'));
    const use = useIn(query) ?? 'lock';
    const page = {
      offset: wholeNumber(query, 'waiterOffset', 0, 1_000_000),
      limit: wholeNumber(query, 'waiterLimit', WAITERS, WAITERS_MAX),
    };
    const lock = await this.#reads.recent(name, use);
    const known = this.#details.get(lock);
    if (known?.offset === page.offset && known.limit === page.limit) return encodedJson(known.text);
    const detail = lockDetail(lock, use, page, {
      timelines: this.#timelines,
      durations: this.#durations,
      leases: this.#leases,
      before: this.#loop.latest?.locks.get(storedName(use, name)),
      intervalMs: this.#loop.intervalMs,
    });
    const text = JSON.stringify(detail);
    this.#details.set(lock, { ...page, text });
    return encodedJson(text);
  }

  #stream(request: Request): Response {
    // Some proxies would keep the events back until there are more.
    const headers = { 'x-accel-buffering': 'no' };
    return answer(this.#events.open(request.signal), 'text/event-stream; charset=utf-8', { headers });
  }

  async #evict({ request, caller }: ApiCall): Promise<Response> {
    if (caller.role !== 'operate') throw new RefusedError(403, 'forbidden', 'You may look, and not evict.');
    const asked = checkEvict(await jsonBody(request, this.#core.clock));
    const { owner, outcome, holders } = await evictClaim(this.#locks, this.#reads, asked);
    const { name, use, id, fence } = asked;
    const atMs = Math.round(this.#core.clock.wallMs());
    this.#audit.add({ atMs, who: caller.who, name, use, id, fence, owner, outcome });
    return json({ outcome, holders } satisfies EvictAnswer, STATUS[outcome]);
  }
}
