import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import type { RunOptions } from './arguments.ts';
import { presentable } from './complaint.ts';
import type { GuardedCommand } from './guarded-command.ts';
import { checkWords } from './run-words.ts';
import { storeUrl } from './store-url.ts';
import { typed } from './text.ts';

const STORE = [
  '--store <url>',
  'where the locks are (default: HOLDFAST_URL, else a SQLite file of this user)',
] as const;
const JSON_FLAG = ['--json', 'print JSON'] as const;

interface LookOptions {
  readonly store?: string;
  readonly json?: boolean;
}

type Finish = (work: Promise<number>) => Promise<void>;

/** The verbs. Each loads what it needs when it is called, so that starting stays quick. `finish` gets the exit code. */
export function program(finish: Finish, guard: GuardedCommand | null): Command {
  const holdfast = new Command('holdfast')
    .description('Distributed locks for shell scripts, cron jobs and people')
    .version(version())
    // Commander repeats an argument that it does not understand, and that may be a misspelled `--store=URL`.
    .configureOutput({ writeErr: (text) => void process.stderr.write(presentable(text)) })
    .enablePositionalOptions()
    .exitOverride();
  addRun(holdfast, finish, guard);
  addLooks(holdfast, finish);
  addMigrations(holdfast, finish);
  return holdfast;
}

function addMigrations(holdfast: Command, finish: Finish): void {
  holdfast
    .command('migrations')
    .description('print the SQL that the PostgreSQL store needs, for teams that run it themselves')
    .option('--schema <name>', 'where its tables and functions are to be', 'holdfast')
    .action(async ({ schema }: { schema: string }) => {
      const { migrations } = await import('./migrations.ts');
      await finish(migrations(schema));
    });
}

function addRun(holdfast: Command, finish: Finish, guard: GuardedCommand | null): void {
  holdfast
    .command('run')
    .description('run a command while holding a lock')
    .usage('<name> [options] -- <command> [arguments...]')
    .argument('<name>', 'the lock')
    .argument('<command...>', 'what to run; it sees HOLDFAST_NAME and HOLDFAST_FENCE')
    .option(...STORE)
    .option('--ttl <duration>', 'how long the lock outlives a holder that went silent', '30s')
    .option('--wait <duration>', 'how long to wait for it; or "forever"', '10s')
    .option('--no-wait', 'try once')
    .option('--grace <duration>', 'when the lock is lost: how long after SIGTERM comes SIGKILL', '5s')
    .option('--shared', 'hold it as a reader, together with other readers')
    .option('--permits <k/n>', 'hold k of n permits instead')
    .action(async (name: string, command: string[], options: RunOptions) => {
      const { run } = await import('./run.ts');
      await finish(run(storeUrl(options.store), typed(name), command, options, guard));
    });
}

function addLooks(holdfast: Command, finish: Finish): void {
  const verb = (usage: string, description: string): Command =>
    holdfast
      .command(usage)
      .description(description)
      .option(...STORE)
      .option(...JSON_FLAG);
  verb('list [prefix]', 'show every lock that is held or waited for').action(
    async (prefix: string | undefined, options: LookOptions) => {
      const { list } = await import('./look.ts');
      await finish(list(storeUrl(options.store), typed(prefix ?? ''), options));
    },
  );
  verb('show <name>', 'show who holds a lock and who waits for it').action(
    async (name: string, options: LookOptions) => {
      const { show } = await import('./look.ts');
      await finish(show(storeUrl(options.store), typed(name), options));
    },
  );
  verb('evict <name> <claim>', 'take a lock away from exactly that claim (see show)').action(
    async (name: string, claim: string, options: LookOptions) => {
      const { evict } = await import('./look.ts');
      await finish(evict(storeUrl(options.store), typed(name), typed(claim), options));
    },
  );
}

/** Throws `UsageError` for arguments that the parser would understand in another way than they are meant. */
export function checkArguments(holdfast: Command, [verb, ...args]: readonly string[]): void {
  const run = holdfast.commands.find((command) => command.name() === verb && verb === 'run');
  if (run === undefined) return;
  const valued = run.options.filter((option) => option.required).map((option) => option.long ?? '');
  checkWords(args, new Set(valued));
}

function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
