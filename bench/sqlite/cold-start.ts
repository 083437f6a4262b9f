import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type Finding, median } from './measure.ts';

const ROUNDS = 20;
const holdfast = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

function timed(file: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): number {
  const startedAt = process.hrtime.bigint();
  const { status } = spawnSync(file, args, { env: { ...process.env, ...env } });
  if (status !== 0) throw new Error(`${file} ${args.join(' ')} ended with ${status}`);
  return Number(process.hrtime.bigint() - startedAt) / 1e6;
}

/** What `holdfast run` adds to a command, beyond starting Node.js. */
export async function coldStart(folder: string): Promise<Finding[]> {
  const env = { HOLDFAST_URL: `sqlite:${folder}/cold.db` };
  const rounds: { added: number; node: number; whole: number }[] = [];
  for (let round = 0; round <= ROUNDS; round += 1) {
    const command = timed('true', []);
    const node = timed(process.execPath, ['-e', '0']);
    const whole = timed(process.execPath, [holdfast, 'run', 'name', '--', 'true'], env);
    if (round > 0) rounds.push({ added: whole - node - command, node, whole });
  }
  const added = median(rounds.map((each) => each.added));
  const [whole, node] = [median(rounds.map((each) => each.whole)), median(rounds.map((each) => each.node))];
  const value = `${added.toFixed(0)} ms (whole ${whole.toFixed(0)} ms, Node.js alone ${node.toFixed(0)} ms)`;
  return [{ what: 'cold `holdfast run` adds', value, target: '≤ 150 ms', met: added <= 150 }];
}
