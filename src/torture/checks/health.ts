import type { Spans } from './spans.ts';
import { atSecond, inMs, unseen, type Verdict, verdict } from './verdict.ts';

const HEAP_MAX = 20 * 1024 * 1024;
const LISTENERS_MAX = 50;
/** A Redis has a few keys for each lock; a key for each hold would be thousands. */
const KEYS_MAX = 200;
const SAMPLES_MIN = 3;

/** What is left over, and what became of the processes. */
export function checkHealth(spans: Spans): Verdict[] {
  return [leaks(spans), memory(spans), exits(spans), rejections(spans)];
}

/** Locks that are not free after the run, and data that grew with it. */
function leaks(spans: Spans): Verdict {
  const property = 'leaks';
  if (spans.run === null) return openHolds(spans);
  const findings: string[] = [];
  let count = 0;
  for (const { lock, note } of spans.notes) {
    if (note.kind === 'keys' && note.count > KEYS_MAX)
      findings.push(`${note.count} keys were left in the store`);
    if (note.kind !== 'recovery') continue;
    count += 1;
    if (!note.isFree)
      findings.push(`${lock}: not free ${inMs(note.tookMs * 1e6)} after the last process had ended`);
  }
  return verdict(property, findings, { count, wanted: 1, what: 'locks were free after the run' });
}

/** For a history without notes: the holds that were neither released nor lost. */
function openHolds(spans: Spans): Verdict {
  const open = spans.holds.filter(({ end }) => end === 'open');
  const findings = open.map(
    ({ lock, process, from }) => `${lock}: process ${process} never gave up its hold ${atSecond(from)}`,
  );
  return verdict('leaks', findings, { count: spans.holds.length, wanted: 1, what: 'holds were given up' });
}

/** The first worker lives through the whole run: its heap and its listeners do not grow. */
function memory(spans: Spans): Verdict {
  const states = spans.notes.flatMap(({ note }) =>
    note.kind === 'state' && note.worker === 0 ? [note] : [],
  );
  const findings = spans.notes.flatMap(({ note }) =>
    note.kind === 'problem' && note.what === 'warning' && note.text.includes('MaxListeners')
      ? [note.text]
      : [],
  );
  const [first, last] = [states[SAMPLES_MIN - 1], states.at(-1)];
  const grown = (last?.heap ?? 0) - (first?.heap ?? 0);
  const listeners = (last?.listeners ?? 0) - (states[0]?.listeners ?? 0);
  if (first !== undefined && grown > HEAP_MAX)
    findings.push(`the heap grew by ${(grown / 2 ** 20).toFixed(1)} MB`);
  if (listeners > LISTENERS_MAX) findings.push(`${listeners} listeners were added to the process`);
  const what = `samples, heap ${grown < 0 ? '' : '+'}${(grown / 2 ** 20).toFixed(1)} MB`;
  return verdict('heap and listeners', findings, { count: states.length, wanted: SAMPLES_MIN, what });
}

function exits(spans: Spans): Verdict {
  const property = 'process exits';
  if (spans.run === null) return unseen(property, 'the history does not say how processes ended');
  let count = 0;
  const findings: string[] = [];
  for (const { at, note } of spans.notes) {
    if (note.kind === 'exit') {
      count += 1;
      if (!note.isExpected)
        findings.push(`worker ${note.worker} ended by itself ${atSecond(at)}: ${note.how}`);
    } else if (note.kind === 'problem' && (note.what === 'exception' || note.what === 'hang'))
      findings.push(`worker ${note.worker}: ${note.text}`);
  }
  return verdict(property, findings, { count, wanted: 1, what: 'processes ended as they should' });
}

function rejections(spans: Spans): Verdict {
  const property = 'unhandled rejections';
  if (spans.run === null) return unseen(property, 'the history does not say');
  const findings = spans.notes.flatMap(({ note }) =>
    note.kind === 'problem' && note.what === 'rejection' ? [`worker ${note.worker}: ${note.text}`] : [],
  );
  const count = spans.notes.filter(({ note }) => note.kind === 'exit').length;
  return verdict(property, findings, { count, wanted: 1, what: 'processes without one' });
}
