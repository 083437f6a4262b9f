import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * An empty data folder, made once per host and copied for each server: making one takes longer than
 * all the rest of a start. `make` leaves it in the folder `data` of the folder that it gets.
 */
export function templateFolder(name: string, make: (dir: string) => void): string {
  const cache = join(tmpdir(), `holdfast-templates-${process.getuid?.() ?? 0}`);
  const template = join(cache, name);
  if (existsSync(template)) return template;
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-template-'));
  make(dir);
  mkdirSync(cache, { recursive: true, mode: 0o700 });
  const fresh = `${template}.${process.pid}`;
  cpSync(`${dir}/data`, fresh, { recursive: true });
  rmSync(dir, { recursive: true, force: true });
  try {
    renameSync(fresh, template);
  } catch {
    // Another process has made it at the same time.
    rmSync(fresh, { recursive: true, force: true });
  }
  return template;
}
