import { afterAll, afterEach, beforeAll, describe } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { LeaseStage, request } from '../../postgres/support/lease-stage.ts';
import { describeOutage } from './support/outage-cases.ts';

let stage: LeaseStage;
beforeAll(async () => {
  stage = await LeaseStage.start();
  // The first claim makes the tables.
  await stage.store().claim(request('tables'));
});
afterEach(() => stage.proxy.pass());
afterAll(() => stage[Symbol.asyncDispose]());

describe('leases on a server that is out of reach', () => {
  describeOutage({
    proxy: () => stage.proxy,
    failsFast: false,
    open(library) {
      const store = stage.store({ library, url: stage.proxyUrl, connections: 1 });
      return { store, locks: createLocks(store, { waitMs: 20_000 }) };
    },
    // Every claim that was sent has made a row.
    async sentClaims(prefix) {
      const rows = await stage.query('SELECT FROM holdfast.locks WHERE name LIKE $1', [`${prefix}-%`]);
      return rows.length;
    },
  });
});
