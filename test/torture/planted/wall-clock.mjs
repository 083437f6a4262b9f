// Planted: the deadline goes by the wall clock, which may be set back.
import { adapterOf } from './base.mjs';

export default adapterOf('wall clock', { now: () => Date.now() });
