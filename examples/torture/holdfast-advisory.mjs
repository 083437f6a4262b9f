// Holdfast on PostgreSQL's advisory locks, which end with their session.
import { adapterFor } from './holdfast.mjs';

export default adapterFor('holdfast, advisory locks', (url) => `${url.split('?')[0]}?mode=advisory`);
