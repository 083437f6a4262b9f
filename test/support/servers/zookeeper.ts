import { setTimeout as sleep } from 'node:timers/promises';
import zookeeper from 'node-zookeeper-client';
import type { RawClient } from '../../../src/stores/zookeeper/client.ts';
import {
  type EnsembleOptions,
  type Member,
  memberWithMode,
  modeOf,
  startZookeeperMembers,
} from '../../../src/torture/servers/zookeeper.ts';

export interface ClientOptions {
  readonly address?: string;
  readonly sessionMs?: number;
  /** How often the client itself repeats an unanswered request. */
  readonly retries?: number;
  /** A session to continue. */
  readonly session?: { readonly id: Buffer; readonly password: Buffer };
}

export interface Ensemble extends AsyncDisposable {
  readonly members: readonly Member[];
  /** For a client: `a,b,c`. */
  readonly address: string;
  readonly url: string;
  /** A client of the ensemble, of one member or of a proxy; connected, and closed with the ensemble. */
  client(options?: ClientOptions): RawClient;
  /** The member that leads now; waits for one. */
  leader(): Promise<Member>;
  /** A member that follows now. */
  follower(): Promise<Member>;
  /** Resolves when members answer that they serve. */
  serving(count?: number): Promise<void>;
  stop(): Promise<void>;
}

/** A member that gets no processor time for ten seconds stays with its leader, and keeps its clients. */
export const STEADY: EnsembleOptions = { syncLimit: 40 };

/** An ensemble of our own, to kill, pause and cut. */
export async function startEnsemble(options: EnsembleOptions = {}): Promise<Ensemble> {
  return new OwnEnsemble(await startZookeeperMembers(options));
}

class OwnEnsemble implements Ensemble {
  readonly members: readonly Member[];
  readonly #clients = new Set<RawClient>();

  constructor(members: readonly Member[]) {
    this.members = members;
  }

  get address(): string {
    return this.members.map((member) => member.address).join(',');
  }

  get url(): string {
    return `zookeeper://${this.address}`;
  }

  client({ address, sessionMs = 4_000, retries = 0, session }: ClientOptions = {}): RawClient {
    const client = zookeeper.createClient(address ?? this.address, {
      sessionTimeout: sessionMs,
      spinDelay: 100,
      retries,
      ...(session === undefined ? {} : { sessionId: session.id, sessionPassword: session.password }),
    }) as unknown as RawClient;
    client.connect();
    this.#clients.add(client);
    return client;
  }

  async leader(): Promise<Member> {
    return await memberWithMode(this.members, ['leader', 'standalone']);
  }

  async follower(): Promise<Member> {
    return await memberWithMode(this.members, ['follower']);
  }

  async serving(count = this.members.length): Promise<void> {
    for (const until = Date.now() + 30_000; Date.now() < until; await sleep(50))
      if ((await this.#modes()).filter((mode) => mode !== null).length >= count) return;
    throw new Error(`fewer than ${count} members serve`);
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.close();
    for (const { server } of this.members) server.kill('SIGKILL');
    await Promise.all(
      this.members.flatMap(({ server, links }) => [server, ...links]).map((each) => each.stop()),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #modes(): Promise<(string | null)[]> {
    return await Promise.all(this.members.map(({ port }) => modeOf(port)));
  }
}
