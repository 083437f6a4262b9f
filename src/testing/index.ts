export {
  type Fault,
  type FaultyStore,
  faultyStore,
  nthCall,
  type StoreCall,
  type StoreVerb,
} from './faulty-store.ts';
export type { StoreCase, StoreEnv } from './store-case.ts';
export { storeCases } from './store-cases.ts';
export { type VirtualClock, type VirtualClockOptions, virtualClock } from './virtual-clock.ts';
