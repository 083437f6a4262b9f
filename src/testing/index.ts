export {
  type Fault,
  type FaultyStore,
  faultyStore,
  nthCall,
  type StoreCall,
  type StoreVerb,
} from './faulty-store.ts';
export type { SimulatedFault } from './simulation/faults.ts';
export type { Scenario, SimulatedProcess } from './simulation/history.ts';
export {
  type SimulateOptions,
  SimulationError,
  type SimulationReport,
  simulate,
} from './simulation/simulate.ts';
export type { StoreCase, StoreEnv } from './store-case.ts';
export { storeCases } from './store-cases.ts';
export { type VirtualClock, type VirtualClockOptions, virtualClock } from './virtual-clock.ts';
