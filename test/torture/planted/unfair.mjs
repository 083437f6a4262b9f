// Planted: the adapter claims first come, first served, and serves whoever asks at the right moment.
import { adapterOf } from './base.mjs';

export default adapterOf('unfair', {}, { isFair: true });
