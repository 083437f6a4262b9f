import { codeOf } from './world.ts';

/** The code with which a call was refused, whether it threw or rejected. */
export async function refusal(run: () => unknown): Promise<unknown> {
  try {
    await run();
  } catch (error) {
    return codeOf(error);
  }
  return 'accepted';
}
