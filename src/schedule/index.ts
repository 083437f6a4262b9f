export { type Schedule, type ScheduleOptions, schedule } from './schedule.ts';
export type { SlotSource } from './slots.ts';
export type { Tick } from './tick.ts';
