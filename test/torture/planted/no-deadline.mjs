// Planted: the holder trusts its lock until a renewal is refused. A stopped process learns it too late.
import { adapterOf } from './base.mjs';

export default adapterOf('no local deadline', { isHeld: (hold) => !hold.isOver && !hold.isLost });
