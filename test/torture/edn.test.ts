import { expect, it } from 'vitest';
import { toEdn } from '../../src/torture/edn.ts';
import { formatHistory, type History, parseHistory } from '../../src/torture/history.ts';

const HISTORY: History = [
  { at: 1_000, process: 3, type: 'invoke', op: 'acquire', lock: 'a "b"' },
  { at: 2_000, process: 3, type: 'ok', op: 'acquire', lock: 'a "b"', fence: '123456789012345678901' },
  { at: 3_000, process: 3, type: 'ok', op: 'write', lock: 'r', value: 7 },
  { at: 4_000, process: -1, type: 'info', op: 'lost', lock: '', note: { kind: 'fault', fault: 'kill' } },
];

it('writes EDN for the checkers of Jepsen', () => {
  expect(toEdn(HISTORY)).toBe(
    [
      '{:index 0, :time 1000, :type :invoke, :process 3, :f :acquire, :lock "a \\"b\\"", :value nil}',
      '{:index 1, :time 2000, :type :ok, :process 3, :f :acquire, :lock "a \\"b\\"", :value nil, ' +
        ':fence 123456789012345678901N}',
      '{:index 2, :time 3000, :type :ok, :process 3, :f :write, :lock "r", :value 7}',
      '{:index 3, :time 4000, :type :info, :process :nemesis, :f :lost, :lock "", :value nil, ' +
        ':note "{\\"kind\\":\\"fault\\",\\"fault\\":\\"kill\\"}"}',
      '',
    ].join('\n'),
  );
});

it('reads back the lines that it wrote, and names the line that is no event', () => {
  expect(parseHistory(formatHistory(HISTORY))).toEqual(HISTORY);
  expect(() => parseHistory(`${formatHistory(HISTORY)}{"at":1}\n`)).toThrow(/line 5 is not an event/);
  expect(() => parseHistory('{\n')).toThrow(/line 1 is not an event/);
});
