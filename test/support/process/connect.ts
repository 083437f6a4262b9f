import { openLocks } from '../../../src/index.ts';

// Opens locks by a URL, prints the code of the failure, and has nothing more to do.
const [, , url = ''] = process.argv;
openLocks(url).then(
  () => process.stdout.write('connected'),
  (error: { code?: string }) => process.stdout.write(`${error.code}`),
);
const timer = setTimeout(() => {
  process.stdout.write(` and kept by ${process.getActiveResourcesInfo().join(' ')}`);
  process.exit(1);
}, 10_000);
timer.unref();
