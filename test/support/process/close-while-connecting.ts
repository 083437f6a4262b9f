import { register } from 'node:module';
import { openLocks } from '../../../src/index.ts';

// Opens locks by a URL and closes them again while their client is still connecting, and has
// nothing more to do. `without`: a library that is not installed here.
const [, , url = '', without = ''] = process.argv;
const hooks = `export async function resolve(specifier, context, next) {
  if (specifier === ${JSON.stringify(without)})
    throw Object.assign(new Error('left out'), { code: 'ERR_MODULE_NOT_FOUND' });
  return await next(specifier, context);
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
const locks = await openLocks(url, { connect: false });
await locks.close();
process.stdout.write('closed');
const timer = setTimeout(() => {
  process.stdout.write(` and kept by ${process.getActiveResourcesInfo().join(' ')}`);
  process.exit(1);
}, 10_000);
timer.unref();
