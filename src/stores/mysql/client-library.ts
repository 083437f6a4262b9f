import { type ClientLibrary, exportsWith, importInstalled } from '../shared/client-library.ts';
import type { DriverConnection } from './connection.ts';

export interface Mysql2 {
  createConnection(settings: object): DriverConnection;
}

/** How it is loaded is explained in `../redis/client-library.ts`. */
export const MYSQL2: ClientLibrary<Mysql2> = {
  name: 'mysql2',
  async load() {
    try {
      return exportsWith<Mysql2>('createConnection', require('mysql2'));
    } catch {
      return exportsWith<Mysql2>('createConnection', await importInstalled('mysql2'));
    }
  },
};
