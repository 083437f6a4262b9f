import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Argument, Command, Option } from 'commander';
import { USES, type Use } from '../use.ts';
import { SHELLS, type Shell } from './completion/scripts.ts';
import type { DashboardOptions } from './dashboard.ts';
import type { DoctorOptions } from './doctor.ts';
import type { EvictOptions } from './evict.ts';
import type { GuardedCommand } from './guarded-command.ts';
import type { HoldOptions, OnceOptions, RunOptions } from './hold-options.ts';
import { checkOptionPositions } from './option-position.ts';
import { presentable } from './report-error.ts';
import { storeUrl } from './store-url.ts';
import { typed } from './text.ts';
import type { TortureArguments } from './torture.ts';

const STORE = [
  '--store <url>',
  'where the locks are (default: HOLDFAST_URL, else a SQLite file of this user)',
] as const;
const JSON_FLAG = ['--json', 'print JSON'] as const;

interface InspectOptions {
  readonly store?: string;
  readonly json?: boolean;
  readonly use?: Use;
}

/** The verbs that run a command. */
const RUN_VERBS: ReadonlySet<string> = new Set(['run', 'once', 'elect']);

type Finish = (work: Promise<number>) => Promise<void>;

/**
 * The commands. Each loads what it needs when it is called, so that the start is fast. `finish`
 * gets the exit code.
 */
export function defineVerbs(finish: Finish, guard: GuardedCommand | null): Command {
  const holdfast = new Command('holdfast')
    .description('Distributed locks for shell scripts, cron jobs and people')
    .version(version())
    // Commander repeats an unknown argument, which may be a misspelled `--store=URL`.
    .configureOutput({ writeErr: (text) => void process.stderr.write(presentable(text)) })
    .enablePositionalOptions()
    .exitOverride();
  addRuns(holdfast, finish, guard);
  addInspection(holdfast, finish);
  addDoctor(holdfast, finish);
  addMigrations(holdfast, finish);
  addCompletion(holdfast, finish);
  addDashboard(holdfast, finish);
  addTorture(holdfast, finish);
  return holdfast;
}

function addCompletion(holdfast: Command, finish: Finish): void {
  const shell = new Argument('<shell>', 'the shell that is to complete verbs, options and names').choices(
    SHELLS,
  );
  holdfast
    .command('completion')
    .description('print the completion script of a shell')
    .addArgument(shell)
    .action(async (of: Shell) => {
      const { completion } = await import('./completion/completion.ts');
      await finish(completion(of));
    });
  // Called by the completion scripts.
  holdfast
    .command('complete <shell> [words...]', { hidden: true })
    .action(async (of: Shell, words: string[]) => {
      const { complete } = await import('./completion/completion.ts');
      await finish(complete(holdfast, of, words));
    });
}

function addDoctor(holdfast: Command, finish: Finish): void {
  holdfast
    .command('doctor')
    .description('check what the store and this host can and cannot promise')
    .option(...STORE)
    .option('--ttl <duration>', 'the TTL that the round trip is compared with', '30s')
    .option(...JSON_FLAG)
    .action(async (options: DoctorOptions & { readonly store?: string }) => {
      const { doctor } = await import('./doctor.ts');
      await finish(doctor(storeUrl(options.store), options));
    });
}

function addMigrations(holdfast: Command, finish: Finish): void {
  holdfast
    .command('migrations')
    .description('print the SQL that a PostgreSQL or MySQL store needs, for teams that run it themselves')
    .option(
      '--store <url>',
      'a postgres: or mysql: URL, which is not connected to (default: HOLDFAST_URL, else PostgreSQL)',
    )
    .option('--schema <name>', 'where the tables and functions of PostgreSQL are to be (default: holdfast)')
    .action(async ({ schema, store }: { schema?: string; store?: string }) => {
      const { migrations } = await import('./migrations.ts');
      await finish(migrations(schema, store));
    });
}

function addDashboard(holdfast: Command, finish: Finish): void {
  holdfast
    .command('dashboard')
    .description('serve a page with every lock, and print its URL; Enter prints a new one')
    .option(...STORE)
    .option('--port <port>', 'where to listen; 0: any free port', '0')
    .option('--host <address>', 'another address than loopback needs --insecure', '127.0.0.1')
    .option('--read-only', 'nobody can evict')
    .option('--insecure', 'listen on another address than loopback, without encryption')
    .option(...JSON_FLAG)
    .action(async (options: DashboardOptions) => {
      const { dashboard } = await import('./dashboard.ts');
      await finish(dashboard(storeUrl(options.store), options));
    });
}

function addTorture(holdfast: Command, finish: Finish): void {
  holdfast
    .command('torture [adapter]')
    .description('put a lock library through faults, and judge what its locks did')
    .option('--check <file>', 'judge a recorded history instead')
    .option('--minutes <count>', 'how long', '1')
    .option('--server <name>', 'the server to start, or the URL of one', 'redis')
    .option('--seed <number>', 'repeats the order of the faults')
    .option('--workers <count>', 'worker processes (default: 4)')
    .option('--faults <list>', 'only these faults, with commas between them')
    .option('--history <file>', 'write the history as JSON lines')
    .option('--edn <file>', 'write the history in EDN, for the checkers of Jepsen')
    .option(...JSON_FLAG)
    .action(async (adapter: string | undefined, options: TortureArguments) => {
      const { runTorture } = await import('./torture.ts');
      await finish(runTorture(adapter, options));
    });
}

/** A verb that runs a command under a hold. */
function commandVerb(holdfast: Command, verb: string, description: string): Command {
  return holdfast
    .command(verb)
    .description(description)
    .usage('<name> [options] -- <command> [arguments...]')
    .argument('<name>', 'the lock')
    .argument('<command...>', 'the command to run, with HOLDFAST_NAME and HOLDFAST_FENCE in its environment')
    .option(...STORE)
    .option('--ttl <duration>', 'how long the lock outlives a holder that has died', '30s')
    .option(
      '--grace <duration>',
      'when the lock is lost: time from SIGTERM to SIGKILL (default: 5s, at most a third of --ttl)',
    );
}

function addRuns(holdfast: Command, finish: Finish, guard: GuardedCommand | null): void {
  commandVerb(holdfast, 'run', 'run a command while holding a lock')
    .option('--wait <duration>', 'how long to wait for the lock, or "forever"', '10s')
    .option('--no-wait', 'try once')
    .option('--shared', 'hold the lock as a reader, together with other readers')
    .option('--permits <k/n>', 'hold k of n permits instead')
    .action(async (name: string, command: string[], options: RunOptions) => {
      const { run } = await import('./run.ts');
      await finish(run(storeUrl(options.store), typed(name), command, options, guard));
    });
  commandVerb(holdfast, 'once', 'run a command unless it has succeeded already')
    .option('--remember <duration>', 'how long a success is remembered', '24h')
    .option('--wait <duration>', 'how long to wait for a run in progress, or "forever"', '0s')
    .action(async (name: string, command: string[], options: OnceOptions) => {
      const { once } = await import('./once.ts');
      await finish(once(storeUrl(options.store), typed(name), command, options, guard));
    });
  commandVerb(holdfast, 'elect', 'run a command while leader, again in each term').action(
    async (name: string, command: string[], options: HoldOptions) => {
      const { elect } = await import('./elect.ts');
      await finish(elect(storeUrl(options.store), typed(name), command, options, guard));
    },
  );
}

function addInspection(holdfast: Command, finish: Finish): void {
  const verb = (usage: string, description: string): Command =>
    holdfast
      .command(usage)
      .description(description)
      .option(...STORE)
      .addOption(new Option('--use <use>', 'what the name is used for').choices(USES))
      .option(...JSON_FLAG);
  verb('list [prefix]', 'show every lock that is held or waited for').action(
    async (prefix: string | undefined, options: InspectOptions) => {
      const { list } = await import('./inspect.ts');
      await finish(list(storeUrl(options.store), typed(prefix ?? ''), options));
    },
  );
  verb('show <name>', 'show the holders and the waiters of a lock').action(
    async (name: string, options: InspectOptions) => {
      const { show } = await import('./inspect.ts');
      await finish(show(storeUrl(options.store), typed(name), options));
    },
  );
  verb('watch [prefix]', 'show the locks live; in a pipe, print a line for each change').action(
    async (prefix: string | undefined, options: InspectOptions) => {
      const { watch } = await import('./watch/watch.ts');
      await finish(watch(storeUrl(options.store), typed(prefix ?? ''), options));
    },
  );
  verb('evict <name> [claim]', 'take a lock away from exactly that claim (see show)')
    .option('--all', 'take it away from every claim that holds it now')
    .option('--yes', 'do not ask; needed where there is no terminal')
    .action(async (name: string, claim: string | undefined, options: InspectOptions & EvictOptions) => {
      const { evict } = await import('./evict.ts');
      const id = claim === undefined ? undefined : typed(claim);
      await finish(evict(storeUrl(options.store), typed(name), id, options));
    });
  holdfast
    .command('forget <name>')
    .description('let a finished once run again')
    .option(...STORE)
    .option(...JSON_FLAG)
    .action(async (name: string, options: InspectOptions) => {
      const { forget } = await import('./inspect.ts');
      await finish(forget(storeUrl(options.store), typed(name), options));
    });
}

/** Throws `UsageError` for arguments that the parser would misunderstand. */
export function checkArguments(holdfast: Command, [verb = '', ...args]: readonly string[]): void {
  const run = holdfast.commands.find((command) => command.name() === verb && RUN_VERBS.has(verb));
  if (run === undefined) return;
  const valued = run.options.filter((option) => option.required).map((option) => option.long ?? '');
  checkOptionPositions(verb, args, new Set(valued));
}

function version(): string {
  const text = readFileSync(join(__dirname, '../../package.json'), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
