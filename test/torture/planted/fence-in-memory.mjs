// Planted: the fences are counted in the memory of each process.
import { adapterOf, right } from './base.mjs';

let count = 0;

export default adapterOf('fence counter in memory', {
  grant: async (claim) => {
    if ((await right.grant(claim)) === null) return null;
    count += 1;
    return String(count);
  },
});
