import { serveRounds } from '../shared/circle-member.ts';
import { advisory } from './advisory.ts';
import { blocking } from './blocking.ts';
import { holdfast, type MakeContender, verrou } from './contenders.ts';

/** One process of the handoff benchmark. */
const [, , url = '', kind = 'lease'] = process.argv;
const HOLD_MS = 5;

const MAKE: Readonly<Record<string, MakeContender>> = { lease: holdfast, advisory, floor: blocking, verrou };
const make = MAKE[kind];
if (make === undefined) throw new Error(`no such contender: ${kind}`);
const contender = await make(url);
await (await contender.acquire(`bench-warm-${process.pid}`))();
await serveRounds(contender, 'bench-handoff', HOLD_MS);
process.exit(0);
