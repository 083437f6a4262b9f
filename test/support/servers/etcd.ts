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
  /** A client of the cluster, of one member or of a proxy; closed with the cluster. */
  client(options?: Partial<IOptions>): Etcd3;
  /** The member that leads now; waits for one. */
  leader(): Promise<EtcdMember>;
  /** Runs etcdctl against the members that are up. */
  etcdctl(...args: string[]): Promise<string>;
  /** Resolves when a write goes through. */
  writable(): Promise<void>;
  stop(): Promise<void>;
}

/** A cluster of our own, to kill, pause and cut. */
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
    throw new Error('the cluster takes no writes');
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.close();
    // Members that end normally elect a new leader and wait for each other, which tests do not need.
    for (const { server } of this.members) server.kill('SIGKILL');
    await Promise.all(this.members.map((member) => member.server.stop()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** Resolves to its output; rejects when it fails. */
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
