import {
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { checkFile } from '../../../src/stores/sqlite/database-file.ts';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';
import { request } from '../../../src/testing/store-case.ts';
import { temporaryFolder } from '../../sqlite/support/folder.ts';
import { openWith } from '../../sqlite/support/libraries.ts';
import { startWorker, stopWorkers } from '../../sqlite/support/workers.ts';

const folder = temporaryFolder();
afterEach(stopWorkers);
afterAll(() => folder.remove());

const wanted = request('x', { id: 'a', ttlMs: 30_000 });
const NOBODY = 65_534;

describe('what can never work says so, and changes nothing', () => {
  it('a folder that does not exist', () => {
    expect(() => sqliteStore(folder.file('missing/locks.db'))).toThrow(/the folder .*missing does not exist/);
  });

  it('a file with two names, of which each would have a log of its own', async () => {
    const [path, other] = [folder.file('linked.db'), folder.file('link.db')];
    await sqliteStore(path).close();
    linkSync(path, other);
    const refusal = { code: 'STORE', applied: 'no', message: expect.stringContaining('hard link') };
    for (const each of [path, other])
      expect(() => sqliteStore(each)).toThrow(expect.objectContaining(refusal));
    rmSync(other);
    await sqliteStore(path).close();
  });

  it('a second name of a file that is in use', async () => {
    const [path, other] = [folder.file('in-use.db'), folder.file('in-use-link.db')];
    const store = sqliteStore(path);
    expect((await store.claim(wanted)).granted).toBe(true);
    linkSync(path, other);
    expect(() => sqliteStore(other)).toThrow(/hard link/);
    await store.close();
  });

  it('a file that is not a database, which stays as it is', () => {
    const path = folder.file('letter.txt');
    const text = 'Dear Sir or Madam, '.repeat(100);
    writeFileSync(path, text);
    expect(() => sqliteStore(path)).toThrow(
      expect.objectContaining({
        code: 'STORE',
        applied: 'no',
        message: expect.stringContaining('not a SQLite database'),
      }),
    );
    expect(readFileSync(path, 'utf8')).toBe(text);
  });

  it('a damaged database', async () => {
    const path = folder.file('damaged.db');
    const store = sqliteStore(path);
    for (let n = 0; n < 200; n += 1) await store.claim({ ...wanted, name: `lock ${n}`, id: `${n}` });
    await store.close();
    const database = openWith('libsql', path);
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    database.close();
    const bytes = readFileSync(path);
    expect(bytes.length).toBeGreaterThan(10_000);
    bytes.fill(0xff, 1024, bytes.length);
    writeFileSync(path, bytes);
    const failure = expect.objectContaining({ code: 'STORE', message: expect.stringMatching(/damaged/) });
    expect(() => sqliteStore(path)).toThrow(failure);
  });

  it('a database of a later version of this library', async () => {
    const path = folder.file('later.db');
    await sqliteStore(path).close();
    const database = openWith('libsql', path);
    database.exec("UPDATE holdfast_meta SET value = '99' WHERE key = 'format'");
    database.close();
    expect(() => sqliteStore(path)).toThrow(/another version of holdfast has written it \(its format is 99/);
  });

  it.each([
    [0x6969, 'NFS'],
    [0xff534d42, 'CIFS'],
    [0x65735546, 'FUSE'],
    [0x01021997, '9P'],
  ])('a network file system (%d)', (type, name) => {
    const problem = expect.objectContaining({
      code: 'STORE',
      applied: 'no',
      message: expect.stringContaining(`(${name})`),
    });
    expect(() => checkFile(folder.file('net.db'), () => type)).toThrow(problem);
    expect(() => checkFile(folder.file('net.db'), () => 0xef53)).not.toThrow();
  });

  it('something that is neither a path nor a database', () => {
    const invalid = expect.objectContaining({ code: 'INVALID_ARGUMENT' });
    expect(() => sqliteStore('')).toThrow(invalid);
    expect(() => sqliteStore({} as never)).toThrow(invalid);
  });
});

describe('a link to the file', () => {
  it('is the file itself, whether that exists yet or not', async () => {
    const [home, elsewhere] = [folder.file('home'), folder.file('elsewhere')];
    mkdirSync(home);
    mkdirSync(elsewhere);
    symlinkSync('../home/locks.db', `${elsewhere}/link.db`);
    symlinkSync(`${elsewhere}/link.db`, `${elsewhere}/link to link.db`);
    const linked = sqliteStore(`${elsewhere}/link to link.db`);
    const plain = sqliteStore(`${home}/locks.db`);
    expect(await linked.claim({ ...wanted, id: 'a' })).toMatchObject({ granted: true });
    let wake = (): void => {};
    const woken = new Promise<void>((resolve) => {
      wake = () => resolve();
    });
    const second = { ...wanted, id: 'b', wait: true };
    expect(await plain.claim(second, undefined, { wake })).toMatchObject({ granted: false });
    await linked.release({ name: 'x', id: 'a' });
    await woken;
    expect(await plain.claim({ ...wanted, id: 'b', wait: true })).toMatchObject({ granted: true });
    await Promise.all([linked.close(), plain.close()]);
    expect(readdirSync(elsewhere).sort()).toEqual(['link to link.db', 'link.db']);
  });
});

/** Root may write anywhere, so the tests of permissions run as another user. */
const asNobody = process.getuid?.() === 0 ? { uid: NOBODY } : {};

describe('permissions', () => {
  it('a folder that may not be written to', async () => {
    const closed = folder.file('closed');
    mkdirSync(closed);
    await sqliteStore(`${closed}/locks.db`).close();
    chmodSync(folder.path, 0o755);
    chmodSync(closed, 0o555);
    const worker = await startWorker(`${closed}/locks.db`, ['try', 'x'], asNobody);
    expect(await worker.said('error')).toMatchObject({
      error: 'STORE',
      applied: 'no',
      message: expect.stringContaining('may not write to the folder'),
    });
    chmodSync(closed, 0o755);
  });

  it('a file that may not be written to', async () => {
    const open = folder.file('open');
    mkdirSync(open);
    const path = `${open}/locks.db`;
    await sqliteStore(path).close();
    chmodSync(folder.path, 0o755);
    chmodSync(open, 0o777);
    chmodSync(path, 0o444);
    if (asNobody.uid !== undefined) chownSync(path, 0, 0);
    const worker = await startWorker(path, ['try', 'x'], asNobody);
    expect(await worker.said('error')).toMatchObject({
      error: 'STORE',
      applied: 'no',
      message: expect.stringContaining('may not write to the file'),
    });
  });
});

describe('a full disk', () => {
  it('refuses with an error that says so, and works again when there is room', async () => {
    // A file system of 96 KiB. In a mount namespace any user may mount one.
    const mount = folder.file('tiny');
    mkdirSync(mount);
    const fill = '{ head -c 90000 /dev/zero > "$0/filler"; true; }';
    const script = `mount -t tmpfs -o size=96k none "$0" && ${fill} && exec "$@"`;
    const under = ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', script, mount];
    const worker = await startWorker(`${mount}/locks.db`, ['try', 'x'], { under });
    expect(await worker.said('error')).toMatchObject({
      error: 'STORE',
      message: expect.stringMatching(/full|reading or writing failed/),
    });
  });

  it('keeps what was granted before, and works again when there is room', async () => {
    const mount = folder.file('small');
    mkdirSync(mount);
    const script = `mount -t tmpfs -o size=300k none "$0" && exec "$@"`;
    const under = ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', script, mount];
    const worker = await startWorker(`${mount}/locks.db`, ['fill', 'x'], { under });
    const { granted, failure, kept, again } = await worker.said('granted');
    expect(granted).toBeGreaterThan(0);
    expect(failure).toMatchObject({
      code: 'STORE',
      message: expect.stringMatching(/full|reading or writing failed/),
    });
    expect(kept).toBe(true);
    expect(again).toBe(true);
  });
});
