// The locks of a NestJS application: one connection, which is closed with the application.
import { type DynamicModule, Inject, Module, type OnApplicationShutdown } from '@nestjs/common';
import { type Locks, openLocks } from 'holdfast';

export const LOCKS = Symbol('LOCKS');

@Module({})
export class LocksModule implements OnApplicationShutdown {
  constructor(@Inject(LOCKS) private readonly locks: Locks) {}

  static forRoot(url: string): DynamicModule {
    const provider = { provide: LOCKS, useFactory: () => openLocks(url) };
    return { module: LocksModule, global: true, providers: [provider], exports: [provider] };
  }

  async onApplicationShutdown(): Promise<void> {
    await this.locks.close({ drainMs: 20_000 });
  }
}
