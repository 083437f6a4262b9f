import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Etcd3, type IOptions } from 'etcd3';
import {
  type EtcdClusterOptions,
  type EtcdMember,
  etcdLeader,
  startEtcdMembers,
} from '../../../src/torture/servers/etcd.ts';
import { findProgram } from '../../../src/torture/servers/find.ts';

const ETCDCTL = { title: 'etcdctl', binary: 'etcdctl', packages: ['etcd-client'] } as const;

export interface EtcdCluster extends AsyncDisposable {
  readonly members: readonly EtcdMember[];
  readonly addresses: readonly string[];
  /** A client for the cluster, or for the `hosts` in `options`. `stop` closes it. */
  client(options?: Partial<IOptions>): Etcd3;
  /** Waits for a leader and returns it. */
  leader(): Promise<EtcdMember>;
  /** Runs etcdctl against the members that are up. */
  etcdctl(...args: string[]): Promise<string>;
  /** Resolves when a write goes through. */
  writable(): Promise<void>;
  stop(): Promise<void>;
}

/** A private cluster that a test may kill, pause and disconnect. */
export async function startEtcdCluster(options: EtcdClusterOptions = {}): Promise<EtcdCluster> {
  return new Cluster(await startEtcdMembers(options));
}

class Cluster implements EtcdCluster {
  readonly members: readonly EtcdMember[];
  readonly #clients = new Set<Etcd3>();

  constructor(members: readonly EtcdMember[]) {
    this.members = members;
  }

  get addresses(): readonly string[] {
    return this.members.map((member) => member.address);
  }

  client(options: Partial<IOptions> = {}): Etcd3 {
    const client = new Etcd3({ hosts: this.addresses.map((address) => `http://${address}`), ...options });
    this.#clients.add(client);
    return client;
  }

  async leader(): Promise<EtcdMember> {
    return await etcdLeader(this.members);
  }

  async etcdctl(...args: string[]): Promise<string> {
    return await runEtcdctl(this.addresses, args);
  }

  async writable(): Promise<void> {
    for (let tries = 0; tries < 100; tries += 1) {
      try {
        await this.etcdctl('--command-timeout=5s', 'put', 'holdfast-harness/writable', String(tries));
        return;
      } catch {
        await sleep(100);
      }
    }
    throw new Error('the cluster accepted no write within 10 s');
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.close();
    // SIGKILL, because members that shut down cleanly first transfer leadership and wait for each other.
    for (const { server } of this.members) server.kill('SIGKILL');
    await Promise.all(this.members.map((member) => member.server.stop()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** Runs etcdctl. Resolves to its standard output; rejects when the exit code is not 0. */
export async function runEtcdctl(addresses: readonly string[], args: readonly string[]): Promise<string> {
  const child = startEtcdctl(addresses, args);
  let output = '';
  let problem = '';
  child.stdout.on('data', (data: Buffer) => {
    output += data.toString();
  });
  child.stderr.on('data', (data: Buffer) => {
    problem += data.toString();
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  if (code !== 0)
    throw new Error(`etcdctl ${args[0] ?? ''} failed: ${problem.trim() || `exit code ${code}`}`);
  return output;
}

export function startEtcdctl(addresses: readonly string[], args: readonly string[]) {
  return spawn(findProgram(ETCDCTL), [`--endpoints=${addresses.join(',')}`, ...args], {
    env: { ...process.env, ETCDCTL_API: '3' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}
