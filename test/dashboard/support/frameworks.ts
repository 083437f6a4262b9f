import 'reflect-metadata';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serve as serveHono } from '@hono/node-server';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import express, { type RequestHandler } from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { type AccessContext, createDashboard, type Dashboard } from '../../../src/dashboard/index.ts';
import type { Locks } from '../../../src/index.ts';
import { listening } from './served.ts';

/** The path under which each framework has the dashboard. */
export const BASE = '/ops/locks';

/** A framework with a dashboard behind an authentication of its own. */
export interface Mounted {
  /** Of the server, without the base path. */
  readonly url: string;
  close(): Promise<void>;
}

/** The users of the frameworks' own authentication, by the token that they send. */
const USERS = new Map([
  ['ann-token', { name: 'ann', isAdmin: true }],
  ['bob-token', { name: 'bob', isAdmin: false }],
]);
type User = { readonly name: string; readonly isAdmin: boolean };

const userOf = (authorization: string | null | undefined): User | undefined =>
  USERS.get((authorization ?? '').replace('Bearer ', ''));

const callerOf = (user: User | undefined) =>
  ({ role: user === undefined ? 'none' : user.isAdmin ? 'operate' : 'read', who: user?.name }) as const;

/** For frameworks that pass their own request on: what their authentication has put there. */
const byIncoming = (_request: Request, { incoming }: AccessContext) =>
  callerOf((incoming as { user?: User } | undefined)?.user);
const byHeader = (request: Request) => callerOf(userOf(request.headers.get('authorization')));

const requireUser: RequestHandler = (request, response, next) => {
  const user = userOf(request.headers.authorization);
  if (user === undefined) response.status(401).send('log in first');
  else {
    Object.assign(request, { user });
    next();
  }
};

async function closing(dashboard: Dashboard, server: Server): Promise<void> {
  await dashboard.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

async function mounted(dashboard: Dashboard, server: Server): Promise<Mounted> {
  const { url } = await listening(server);
  return { url, close: () => closing(dashboard, server) };
}

async function alone(locks: Locks): Promise<Mounted> {
  const dashboard = createDashboard(locks, { access: byHeader, basePath: `${BASE}/` });
  const server = createServer((request, response) => {
    if (userOf(request.headers.authorization) === undefined) response.writeHead(401).end();
    else dashboard.listener(request, response);
  });
  return await mounted(dashboard, server);
}

/** Express cuts the path off. Its own parser has read the body before. */
async function inExpress(locks: Locks): Promise<Mounted> {
  const dashboard = createDashboard(locks, { access: byIncoming });
  const app = express();
  app.use(express.json());
  app.use(BASE, requireUser, dashboard.listener);
  return await mounted(dashboard, createServer(app));
}

/** Fastify leaves the path alone, and reads no body where the parser passes it on. */
async function inFastify(locks: Locks): Promise<Mounted> {
  const dashboard = createDashboard(locks, { access: byIncoming, basePath: BASE });
  const app = fastify();
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
    scope.addHook('onRequest', async (request, reply) => {
      const user = userOf(request.headers.authorization);
      if (user === undefined) return await reply.code(401).send('log in first');
      Object.assign(request.raw, { user });
      return undefined;
    });
    for (const url of [BASE, `${BASE}/*`]) {
      scope.all(url, (request, reply) => {
        reply.hijack();
        dashboard.listener(request.raw, reply.raw);
      });
    }
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    await dashboard.close();
    app.server.closeAllConnections();
    await app.close();
  };
  return { url: `http://127.0.0.1:${port}`, close };
}

/** `isCut`: with `mount`, which cuts the path off; without, as a handler of every path below. */
async function inHono(locks: Locks, isCut: boolean): Promise<Mounted> {
  const dashboard = createDashboard(locks, { access: byHeader, basePath: BASE });
  const app = new Hono();
  app.use(`${BASE}/*`, async (context, next) => {
    if (userOf(context.req.header('authorization')) === undefined) return context.text('log in first', 401);
    return await next();
  });
  if (isCut) app.mount(BASE, dashboard.fetch);
  else app.all(`${BASE}/*`, (context) => dashboard.fetch(context.req.raw));
  const server = await new Promise<Server>((resolve) => {
    const started: unknown = serveHono({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, () =>
      resolve(started as Server),
    );
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => closing(dashboard, server) };
}

class AppModule {}
Module({})(AppModule);

async function inNest(locks: Locks): Promise<Mounted> {
  const dashboard = createDashboard(locks, { access: byIncoming });
  const app = await NestFactory.create(AppModule, { logger: false });
  app.use(BASE, requireUser, dashboard.listener);
  await app.listen(0, '127.0.0.1');
  const server = app.getHttpServer() as Server;
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    await dashboard.close();
    server.closeAllConnections();
    await app.close();
  };
  return { url: `http://127.0.0.1:${port}`, close };
}

export const FRAMEWORKS: Readonly<Record<string, (locks: Locks) => Promise<Mounted>>> = {
  'node:http': alone,
  Express: inExpress,
  Fastify: inFastify,
  'Hono, which cuts the path off': (locks) => inHono(locks, true),
  'Hono, which leaves the path alone': (locks) => inHono(locks, false),
  NestJS: inNest,
};
