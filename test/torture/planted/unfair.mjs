// Planted: the adapter claims first come, first served, and serves any caller that asks at the right moment.
import { adapterOf } from './base.mjs';

export default adapterOf('unfair', {}, { isFair: true });
