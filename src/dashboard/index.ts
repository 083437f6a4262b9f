/** A page, a JSON API and Prometheus metrics for people who look after locks: `holdfast/dashboard`. */
export type { Access, AccessContext, AccessRole, Caller } from './access.ts';
export type * from './api.ts';
export { createDashboard, type Dashboard, type DashboardOptions } from './dashboard.ts';
