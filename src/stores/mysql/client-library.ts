import { type ClientLibrary, exportsWith, importInstalled } from '../shared/client-library.ts';
import type { DriverConnection } from './connection.ts';

export interface Mysql2 {
  createConnection(settings: object): DriverConnection;
}

/** How it is loaded is explained in `../redis/client-library.ts`. */
export const MYSQL2: ClientLibrary<Mysql2> = {
  name: 'mysql2',
  async load() {
    let loaded: unknown;
    try {
      loaded = require('mysql2');
    } catch {
      loaded = await importInstalled('mysql2');
    }
    return exportsWith<Mysql2>('createConnection', loaded);
  },
};
