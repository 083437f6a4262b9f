// Planted: the holder trusts its lock until a renewal is refused. A paused process learns of a loss too late.
import { adapterOf } from './base.mjs';

export default adapterOf('no local deadline', { isHeld: (hold) => !hold.isOver && !hold.isLost });
