// Planted: a pending acquire does not keep the process alive.
import { adapterOf } from './base.mjs';

export default adapterOf('wait that does not keep the process alive', {
  pause: async ({ redis }) => {
    redis.stream?.unref();
    await new Promise((resolve) => setTimeout(resolve, 50).unref());
    redis.stream?.ref();
  },
});
