import { parentPort, workerData } from 'node:worker_threads';
import { threadClock } from '../clock.ts';
import { Core } from '../core.ts';
import { openStore } from '../open-store.ts';
import { KeptHolds } from './kept-holds.ts';
import { LoopCheckingStore } from './loop-checking-store.ts';
import type { FromThread, ThreadData, ToThread } from './messages.ts';
import { plainError } from './plain-error.ts';
import { ServedClaims } from './served-claims.ts';
import { SharedHeader } from './shared-slots.ts';
import { StoreService } from './store-service.ts';

/**
 * The program of the renewal thread. The build makes one text of it and of everything that it
 * imports, so that it also starts from inside a bundle.
 */
async function main(data: ThreadData): Promise<void> {
  const post = (message: FromThread): void => parentPort?.postMessage(message);
  const requests: ToThread[] = [];
  let receive = (request: ToThread): unknown => requests.push(request);
  parentPort?.on('message', (request: ToThread) => receive(request));
  try {
    const store = await openStore(data.url, {});
    const { commandMs, withoutTurnMs } = data;
    const header = new SharedHeader(data.header);
    const loopChecking = new LoopCheckingStore(store, threadClock, header, withoutTurnMs);
    const core = new Core(loopChecking, { clock: threadClock, commandMs });
    const kept = new KeptHolds(core, loopChecking, header, post);
    const isSession = store.traits.lifetime === 'session';
    const served = isSession ? new ServedClaims(store, kept, header, withoutTurnMs, post) : null;
    const service = new StoreService(store, kept, served, post);
    receive = (request) => handle(request, kept, service);
  } catch (error) {
    receive = (request) => refuse(request, error, post);
  }
  requests.forEach((request) => void receive(request));
}

function handle(request: ToThread, kept: KeptHolds, service: StoreService): void {
  if (request.kind === 'call') service.serve(request);
  else if (request.kind === 'abandon') service.abandon(request.number);
  else if (request.kind === 'page') kept.addPage(request.buffer);
  else if (request.kind === 'look') kept.look();
  else if (request.kind === 'drop') kept.drop(request.id);
  else if (request.kind === 'renewNow') kept.renewNow(request.id);
  else kept.check(request.id);
}

/** The store could not be opened. */
function refuse(request: ToThread, error: unknown, post: (message: FromThread) => void): void {
  if (request.kind === 'call') post({ kind: 'failure', number: request.number, error: plainError(error) });
}

void main(workerData as ThreadData);
