// Planted: the token is cleared before the release is sent, which then frees nothing.
import { adapterOf, right } from './base.mjs';

export default adapterOf('token cleared before release', {
  drop: async (claim) => await right.drop({ ...claim, token: '' }),
});
