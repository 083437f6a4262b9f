// Planted: the lease is counted from the reply. The time that the reply took is not subtracted.
import { adapterOf } from './base.mjs';

export default adapterOf('no elapsed time subtracted', {
  deadline: ({ ttlMs }, _sentMs, repliedMs) => repliedMs + ttlMs,
});
