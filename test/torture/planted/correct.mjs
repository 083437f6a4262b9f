// Nothing is planted: this adapter must never be accused.
import { adapterOf } from './base.mjs';

export default adapterOf('correct');
