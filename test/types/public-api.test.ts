import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { installPackage } from '../support/package/installed-package.ts';
import { readPublicApi } from '../support/package/public-api.ts';

using installed = installPackage();
const api = readPublicApi(join(installed.project, 'node_modules/holdfast'));

describe('the public surface', () => {
  it('is the one in public-api.txt', async () => {
    const hint =
      'The public surface has changed. If that is intended, run `npm run api` and commit the result';
    await expect(api.text, hint).toMatchFileSnapshot('public-api.txt');
  });

  it('is documented for every exported name', () => {
    expect(api.undocumented).toEqual([]);
  });
});
