import { fileURLToPath } from 'node:url';
import { vi } from 'vitest';
import { compiled } from '../../support/process/compiled.ts';
import { type Program, startProgram } from '../../support/process/program.ts';
import { eventually as within } from '../../support/waiting/eventually.ts';

// On a busy machine it takes long until some processes have loaded a framework.
vi.setConfig({ testTimeout: 180_000 });

const EXAMPLES = fileURLToPath(new URL('../../../examples/', import.meta.url));

/** The path of `examples/<name>`, which ends in `.ts` unless the name says otherwise. */
export const exampleFile = (name: string): string => `${EXAMPLES}${name.includes('.') ? name : `${name}.ts`}`;

/**
 * For `beforeAll`: compiling blocks this process, and a test that waits for something else would not
 * see it in time.
 */
export function compileExamples(...names: string[]): void {
  for (const name of names) compiled(exampleFile(name));
}

/** Starts `examples/<name>.ts`, with the sources of this repository as the package that it imports. */
export function startExample(name: string, args: readonly string[], env: NodeJS.ProcessEnv): Program {
  return startProgram(compiled(exampleFile(name)), args, { env });
}

/** What an example prints, in lines. Throws when it fails. */
export async function runExample(
  name: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<string[]> {
  return await linesOf(startExample(name, args, env));
}

/** The lines that a program prints until it ends. Throws when it fails. */
export async function linesOf(program: Program): Promise<string[]> {
  const { code, stdout, stderr } = await program.result();
  if (code !== 0) throw new Error(`ended with ${code}\n${stdout}${stderr}`);
  return stdout.split('\n').filter((line) => line !== '');
}

/** Runs `count` copies of an example at the same time. */
export async function runTogether(
  count: number,
  name: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<string[][]> {
  return await Promise.all(Array.from({ length: count }, () => runExample(name, args, env)));
}

/** Polls until the condition holds, for longer than a process takes to start on a busy machine. */
export const eventually = (what: string, isSo: () => Promise<boolean> | boolean): Promise<void> =>
  within(what, isSo, 90_000);
