import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Recipe, type Server, startOwnServer } from '../../../src/torture/servers/server.ts';

interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: number;
}

interface QueryReply {
  readonly status: string;
  readonly error?: string;
  readonly data?: { readonly result: { metric: Record<string, string>; value: [number, string] }[] };
}

/** A Prometheus that scrapes one address, `host:port`, twice a second. */
export function startPrometheus(target: string): Promise<Server> {
  return startOwnServer(recipeFor(target));
}

function recipeFor(target: string): Recipe {
  const configuration = {
    global: { scrape_interval: '500ms', scrape_timeout: '500ms' },
    scrape_configs: [{ job_name: 'holdfast', static_configs: [{ targets: [target] }] }],
  };
  return {
    title: 'Prometheus',
    binary: 'prometheus',
    packages: ['prometheus'],
    urlFrom: 'HOLDFAST_PROMETHEUS_URL',
    // JSON is YAML too.
    prepare: ({ dir }) => writeFileSync(join(dir, 'prometheus.yml'), JSON.stringify(configuration)),
    args: ({ dir, port }) => [
      `--config.file=${join(dir, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(dir, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    async ready({ port }) {
      const { ok } = await fetch(`http://127.0.0.1:${port}/-/ready`);
      if (!ok) throw new Error('Prometheus is not ready');
    },
    url: ({ port }) => `http://127.0.0.1:${port}`,
  };
}

/** What the query gives at this moment. */
export async function queryPrometheus(server: Server, query: string): Promise<readonly Series[]> {
  const reply = await fetch(`${server.url}/api/v1/query?query=${encodeURIComponent(query)}`);
  const { status, error, data } = (await reply.json()) as QueryReply;
  if (status !== 'success') throw new Error(`${query}: ${error}`);
  return (data?.result ?? []).map(({ metric, value }) => ({ metric, value: Number(value[1]) }));
}
