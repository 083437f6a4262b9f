export type { FenceGate } from './fence-gate.ts';
export { memoryFenceGate } from './memory-fence-gate.ts';
export { type MysqlFenceOptions, type MysqlTransaction, mysqlFenceGate } from './mysql-fence-gate.ts';
export { postgresFenceGate } from './postgres-fence-gate.ts';
export {
  type FencedWrite,
  type RedisFenceGate,
  type RedisFenceGateOptions,
  redisFenceGate,
} from './redis-fence-gate.ts';
export { type SqliteFenceGate, sqliteFenceGate } from './sqlite-fence-gate.ts';
