import type { History, HistoryEvent } from './history.ts';

/**
 * The history in EDN, one operation a line, as Jepsen's checkers read it: `:f`, `:type`,
 * `:process`, `:time` in nanoseconds and `:value`. Events of the kit itself belong to the process
 * `:nemesis`.
 */
export function toEdn(history: History): string {
  return history.map((event, index) => `${line(event, index)}\n`).join('');
}

function line(event: HistoryEvent, index: number): string {
  const fields = [
    `:index ${index}`,
    `:time ${event.at}`,
    `:type :${event.type}`,
    `:process ${event.process < 0 ? ':nemesis' : event.process}`,
    `:f :${event.op}`,
    `:lock ${text(event.lock)}`,
    `:value ${event.value ?? 'nil'}`,
    // Fences may exceed 64 bits of other languages' integers: N marks an integer of any size.
    ...(event.fence === undefined
      ? []
      : [`:fence ${/^-?\d+$/.test(event.fence) ? `${event.fence}N` : text(event.fence)}`]),
    ...(event.note === undefined ? [] : [`:note ${text(JSON.stringify(event.note))}`]),
  ];
  return `{${fields.join(', ')}}`;
}

/** EDN strings have the escapes of JSON. */
function text(value: string): string {
  return JSON.stringify(value);
}
