// Installs the Debian packages that the tests need and that are missing, in one go and before the tests:
// inside a test an installation would use up the time of the test. Where it cannot install, it does
// nothing, and the tests that need a program say what to do.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const PACKAGES = `
  redis-server etcd-server etcd-client libzookeeper-java default-jre-headless postgresql pgbouncer
  mariadb-server prometheus chromium tmux zsh fish spin gcc libc6-dev iproute2 openssl
  python3 python3-kazoo python3-psycopg2 python3-redis
`
  .trim()
  .split(/\s+/);
const INSTALL = ['-o', 'DPkg::Lock::Timeout=180', '-qq', '-y', '--no-install-recommends', 'install'];

const isInstalled = (name) => spawnSync('dpkg', ['-s', name]).status === 0;

if (process.getuid?.() === 0 && existsSync('/etc/debian_version')) {
  const missing = PACKAGES.filter((name) => !isInstalled(name));
  // Servers are started in folders of their own; a package must not start one.
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  const run = (args) => spawnSync('apt-get', args, { env, encoding: 'utf8', timeout: 600_000 });
  if (missing.length > 0) {
    console.log(`installs ${missing.join(', ')}`);
    run(['-qq', 'update']);
    const { status, stderr } = run([...INSTALL, ...missing]);
    if (status !== 0) console.log(`apt-get ended with ${status}: ${(stderr ?? '').trim().slice(-300)}`);
  }
}
