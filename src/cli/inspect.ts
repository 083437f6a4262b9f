import type { Use } from '../use.ts';
import type { LockView } from '../view.ts';
import { EXIT } from './exit-code.ts';
import { listLines, showLines } from './lock-text.ts';
import { print, printJson } from './print.ts';
import { painter, quoted } from './text.ts';
import { withLocks } from './with-locks.ts';

interface InspectOptions {
  readonly json?: boolean;
  readonly use?: Use;
}

export async function list(url: string, prefix: string, options: InspectOptions): Promise<number> {
  const views = await withLocks(url, async (locks) => {
    const found: LockView[] = [];
    for await (const view of locks.list(prefix)) {
      if (options.use === undefined || view.use === options.use) found.push(view);
    }
    return found.sort((a, b) => (a.name < b.name ? -1 : 1));
  });
  if (options.json === true) printJson(views);
  else for (const line of listLines(views, painter(process.stdout))) print(line);
  return EXIT.ok;
}

export async function show(url: string, name: string, options: InspectOptions): Promise<number> {
  const view = await withLocks(url, (locks) => locks.inspect(name, { use: options.use }));
  if (options.json === true) printJson(view);
  else for (const line of showLines(view, painter(process.stdout))) print(line);
  return EXIT.ok;
}

export async function forget(url: string, name: string, options: InspectOptions): Promise<number> {
  const forgotten = await withLocks(url, (locks) => locks.forget(name));
  if (options.json === true) printJson({ name, forgotten });
  else
    print(forgotten ? `${quoted(name)} may run again` : `No finished run of ${quoted(name)} is remembered`);
  return forgotten ? EXIT.ok : EXIT.nothing;
}
