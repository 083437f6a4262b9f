import { existsSync, readFileSync } from 'node:fs';
import { eventually } from '../../support/waiting/eventually.ts';
import { start } from './holdfast.ts';

/** Kills holdfast while it runs a command, and waits until the command has ended too. */
export async function killWhileItRuns(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  pidFile: string,
): Promise<void> {
  const command = ['sh', '-c', `echo $$ > ${pidFile}; echo in; exec sleep 60`];
  const killed = await start([...args, '--ttl', '2s', '--', ...command], env);
  await killed.printed('in');
  const pid = Number(readFileSync(pidFile, 'utf8'));
  killed.child.kill('SIGKILL');
  await eventually('ended', () => !existsSync(`/proc/${pid}`));
}
