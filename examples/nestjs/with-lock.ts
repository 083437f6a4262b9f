// A decorator that runs a method under a lock, and keeps what other decorators know of the method.
import 'reflect-metadata';
import { Inject } from '@nestjs/common';
import type { AcquireOptions, Locks } from 'holdfast';
import { LOCKS } from './locks-module.ts';

/** Where NestJS puts the locks into every object whose class has a method with this decorator. */
const PROPERTY = Symbol('locks');

/**
 * `@WithLock('report')` waits for the lock; `{ skip: true }` tries once, and returns undefined when it
 * is held. The name may depend on the arguments: `@WithLock((id: string) => `order:${id}`)`.
 */
export function WithLock<Args extends unknown[]>(
  name: string | ((...args: Args) => string),
  { skip = false, ...options }: AcquireOptions & { skip?: boolean } = {},
) {
  return <Method extends (...args: Args) => Promise<unknown>>(
    target: object,
    key: string,
    descriptor: TypedPropertyDescriptor<Method>,
  ): void => {
    const method = descriptor.value;
    if (method === undefined) throw new TypeError(`@WithLock needs a method: ${key}`);
    Inject(LOCKS)(target, PROPERTY);
    async function underLock(this: { [PROPERTY]: Locks }, ...args: Args): Promise<unknown> {
      const mutex = this[PROPERTY].mutex(typeof name === 'string' ? name : name(...args));
      const call = () => method?.apply(this, args);
      if (!skip) return await mutex.run(call, options);
      const outcome = await mutex.tryRun(call, options);
      return outcome.ran ? outcome.value : undefined;
    }
    // Routes, guards, @Cron and @OnEvent are metadata of the function itself.
    for (const each of Reflect.getOwnMetadataKeys(method)) {
      Reflect.defineMetadata(each, Reflect.getOwnMetadata(each, method), underLock);
    }
    Object.defineProperty(underLock, 'name', { value: method.name });
    descriptor.value = underLock as unknown as Method;
  };
}
