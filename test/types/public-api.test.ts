import { describe, expect, it } from 'vitest';
import { readPublicApi } from '../support/package/public-api.ts';
import { makeScratch, stagePackage } from '../support/package/staged-package.ts';

using scratch = makeScratch();
stagePackage(scratch.folder);
const api = readPublicApi(scratch.folder);

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
