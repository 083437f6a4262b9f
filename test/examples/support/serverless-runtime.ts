import { createInterface } from 'node:readline';
import { handler } from '../../../examples/serverless.ts';

const timers = (): number =>
  process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length;

// A runtime of serverless functions: one invocation for each line, and then what it has left running
// half a second later, at the latest.
for await (const order of createInterface({ input: process.stdin })) {
  const outcome = await handler({ order }).then(
    ({ statusCode }) => `${statusCode}`,
    (error: { code?: string }) => `${error.code}`,
  );
  const endMs = performance.now() + 500;
  while (timers() > 0 && performance.now() < endMs) await new Promise((resolve) => setImmediate(resolve));
  console.log(`${order}: ${outcome}, ${timers()} timers`);
}
process.exit();
