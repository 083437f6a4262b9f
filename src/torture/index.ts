export type { Adapter, AdapterEnv, Held, MakeAdapter } from './adapter.ts';
export { checkHistory } from './checks/check-history.ts';
export type { Verdict } from './checks/verdict.ts';
export { toEdn } from './edn.ts';
export type { History, HistoryEvent, Note, Problem, RunNote } from './history.ts';
export { type Report, type TortureOptions, torture } from './torture.ts';
