// Planted: the failure of a renewal is not handled.
import { adapterOf } from './base.mjs';

export default adapterOf('renewal whose failure nobody handles', {
  commandMs: 500,
  renewEveryMs: () => 50,
  failed: (error) => {
    throw error;
  },
});
