import { describe, expect, it } from 'vitest';
import { readPublicApi } from '../support/public-api.ts';
import { makeScratch, stagePackage } from '../support/staged-package.ts';

using scratch = makeScratch();
stagePackage(scratch.folder);
const api = readPublicApi(scratch.folder);

describe('the public surface', () => {
  it('is the one that is checked in', async () => {
    const hint = 'The public surface has changed. If that is meant, run `npm run api` and commit the result';
    await expect(api.text, hint).toMatchFileSnapshot('public-api.txt');
  });

  it('says of every exported name what it promises', () => {
    expect(api.undocumented).toEqual([]);
  });
});
