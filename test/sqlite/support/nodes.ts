import { join } from 'node:path';
import { fetchPackage } from '../../support/matrix/fetched-packages.ts';

/** Another version of Node.js, kept in the temporary folder from run to run. */
export async function nodeBinary(major: number): Promise<string> {
  const name = `node-${process.platform}-${process.arch}`;
  const folder = await fetchPackage(join('holdfast-test-nodes', String(major)), name, String(major));
  return join(folder, 'bin/node');
}
