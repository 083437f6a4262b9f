import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Certificates {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  /** Not signed by an authority that the members trust. */
  readonly strangerCa: string;
}

/** Elliptic curves, because the time to find RSA primes varies a lot. */
const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'];

function openssl(dir: string, ...args: string[]): void {
  const { status, stderr } = spawnSync('openssl', args, { cwd: dir, encoding: 'utf8' });
  if (status !== 0) throw new Error(`openssl ${args[0]} failed: ${stderr}`);
}

function authority(dir: string, name: string): void {
  openssl(
    dir,
    'req',
    '-x509',
    ...NEW_KEY,
    '-nodes',
    '-days',
    '2',
    '-subj',
    `/CN=${name}`,
    '-keyout',
    `${name}.key`,
    '-out',
    `${name}.pem`,
  );
}

/**
 * An authority, and one certificate for the loopback address, which members and clients use alike.
 */
export function makeCertificates(dir: string): Certificates {
  authority(dir, 'ca');
  authority(dir, 'stranger');
  openssl(
    dir,
    'req',
    ...NEW_KEY,
    '-nodes',
    '-subj',
    '/CN=member',
    '-keyout',
    'member.key',
    '-out',
    'member.csr',
  );
  writeFileSync(join(dir, 'names'), 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n');
  openssl(
    dir,
    'x509',
    '-req',
    '-days',
    '2',
    '-in',
    'member.csr',
    '-CA',
    'ca.pem',
    '-CAkey',
    'ca.key',
    '-CAcreateserial',
    '-extfile',
    'names',
    '-out',
    'member.pem',
  );
  const path = (file: string): string => join(dir, file);
  return {
    ca: path('ca.pem'),
    cert: path('member.pem'),
    key: path('member.key'),
    strangerCa: path('stranger.pem'),
  };
}

/** A key pair for signing tokens. */
export function makeSigningKeys(dir: string): { publicKey: string; privateKey: string } {
  openssl(dir, 'genrsa', '-out', 'sign.key', '2048');
  openssl(dir, 'rsa', '-in', 'sign.key', '-pubout', '-out', 'sign.pub');
  return { publicKey: join(dir, 'sign.pub'), privateKey: join(dir, 'sign.key') };
}
