/**
 * What the store uses of an `Etcd3` client of the `etcd3` package: the raw calls of its `kv`,
 * `leaseClient` and `watchClient`. The package's own leases, locks and watchers are not used: their
 * loss events were measured to come seconds late.
 */
export interface EtcdClient {
  readonly kv: { txn(request: object, options?: object): Promise<unknown> };
  readonly leaseClient: {
    leaseGrant(request: object, options?: object): Promise<unknown>;
    leaseRevoke(request: object, options?: object): Promise<unknown>;
    leaseTimeToLive(request: object, options?: object): Promise<unknown>;
    leaseKeepAlive(options?: object): Promise<unknown>;
  };
  readonly watchClient: { watch(options?: object): Promise<unknown> };
}

/** What `diagnose` uses of an `Etcd3` client besides. */
export interface DiagnosedClient extends EtcdClient {
  readonly maintenance: { status(options?: object): Promise<unknown> };
  readonly cluster: { memberList(request: object, options?: object): Promise<unknown> };
}

/** The state of the member that answers. */
export interface StatusReply {
  readonly header: Header & { readonly member_id: string };
  readonly version: string;
  /** Bytes. */
  readonly dbSize: string;
  /** `0`: this member knows of no leader. */
  readonly leader: string;
  /** The alarms, in words. */
  readonly errors: readonly string[];
}

export interface Member {
  readonly ID: string;
  /** Empty for a member that has not started yet. */
  readonly name: string;
  readonly clientURLs: readonly string[];
  /** It does not vote. */
  readonly isLearner: boolean;
}

/** The client library represents numbers of 64 bits as decimal text. */
export interface Header {
  readonly revision: string;
  /** Rises with every change of leader. */
  readonly raft_term: string;
}

export interface KeyValue {
  readonly key: Buffer;
  readonly value: Buffer;
  readonly create_revision: string;
  readonly mod_revision: string;
  readonly lease: string;
}

export interface RangeReply {
  readonly kvs: readonly KeyValue[];
  /** The number of keys in the range, including those beyond the limit. */
  readonly count: string;
}

export interface TxnReply {
  readonly header: Header;
  readonly succeeded: boolean;
  readonly responses: readonly {
    readonly response_range?: RangeReply | null;
    readonly response_txn?: TxnReply | null;
  }[];
}

export interface RangeRequest {
  readonly key: Buffer;
  readonly range_end?: Buffer;
  readonly limit?: number;
  readonly sort_order?: 'Ascend' | 'Descend';
  readonly sort_target?: 'Create';
  readonly keys_only?: boolean;
  readonly count_only?: boolean;
  readonly max_create_revision?: string;
}

export interface PutRequest {
  readonly key: Buffer;
  readonly value?: Buffer;
  readonly lease: string;
  readonly ignore_value?: boolean;
}

export interface Compare {
  readonly target: 'Create' | 'Mod';
  readonly result: 'Equal' | 'Greater';
  readonly key: Buffer;
  readonly range_end?: Buffer;
  readonly create_revision?: string;
  readonly mod_revision?: string;
}

export type RequestOp =
  | { readonly request_range: RangeRequest }
  | { readonly request_put: PutRequest }
  | { readonly request_delete_range: { readonly key: Buffer } }
  | { readonly request_txn: TxnRequest };

export interface TxnRequest {
  readonly compare: readonly Compare[];
  readonly success: readonly RequestOp[];
  readonly failure: readonly RequestOp[];
}

/** The answer to a grant or a keep-alive. */
export interface LeaseReply {
  readonly ID: string;
  /** Seconds; `0` when there is no such lease. */
  readonly TTL: string;
  readonly header: Header;
}

export interface WatchReply {
  readonly watch_id: string;
  readonly created: boolean;
  readonly canceled: boolean;
  readonly compact_revision: string;
  readonly events: readonly unknown[];
}

export interface Stream<Request, Reply> {
  write(request: Request): void;
  end(): void;
  cancel(): void;
  on(event: 'data', listener: (reply: Reply) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}
