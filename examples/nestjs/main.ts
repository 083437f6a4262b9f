// NestJS with locks on a route and on a cron job. Run it twice:
// REDIS_URL=redis://localhost:6379 npx tsx --tsconfig examples/nestjs/tsconfig.json examples/nestjs/main.ts
import 'reflect-metadata';
import { Controller, Injectable, Module, Param, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { Redis } from 'ioredis';
import { LocksModule } from './locks-module.ts';
import { WithLock } from './with-lock.ts';

const url = process.env.REDIS_URL ?? 'redis://localhost:6379';
const client = new Redis(url);

@Controller('baskets')
class BasketController {
  @WithLock((id: string) => `basket:${id}`, { waitMs: 30_000 })
  @Post(':id/items')
  async add(@Param('id') id: string): Promise<{ items: number }> {
    const items = Number(await client.get(`basket:${id}`)) + 1;
    await client.set(`basket:${id}`, items);
    return { items };
  }
}

@Injectable()
class ReportService {
  // Above or below @Cron: the metadata of @Cron is kept. `skip`: another instance makes the report.
  @WithLock('report', { skip: true })
  @Cron(process.env.REPORT_CRON ?? '30 2 * * *', { name: 'report' })
  async report(): Promise<void> {
    const running = await client.incr('reports:running');
    console.log(running === 1 ? 'report' : 'two reports at once');
    await new Promise((resolve) => setTimeout(resolve, 100));
    await client.decr('reports:running');
  }
}

@Module({
  imports: [LocksModule.forRoot(url), ScheduleModule.forRoot()],
  controllers: [BasketController],
  providers: [ReportService],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
await app.listen(Number(process.env.PORT ?? 0));
console.log((await app.getUrl()).replace('[::1]', '127.0.0.1'));
process.once('SIGTERM', async () => {
  await app.close();
  client.disconnect();
});
