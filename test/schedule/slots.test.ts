import { describe, expect, it } from 'vitest';
import { createLocks, memoryStore } from '../../src/index.ts';
import { schedule } from '../../src/schedule/index.ts';
import { Slots } from '../../src/schedule/slots.ts';
import { virtualClock } from '../../src/testing/index.ts';

const DAY_MS = 86_400_000;

/** Every run of a schedule in this many days of virtual time, as `MM-DDTHH:MM` in UTC. */
async function runsOf(expression: string, timeZone: string, from: string, days: number): Promise<string[]> {
  const clock = virtualClock({ wallMs: Date.parse(from) });
  const locks = createLocks(memoryStore({ clock }), { clock });
  const runs: string[] = [];
  const job = schedule(
    locks,
    'job',
    expression,
    ({ slot, lateMs }) => {
      runs.push(slot.toISOString().slice(5, 16));
      expect(lateMs).toBeLessThan(10);
    },
    { timeZone },
  );
  await clock.advance(days * DAY_MS);
  await job.stop();
  return runs;
}

describe('no slot is dropped or doubled when the clocks change', () => {
  const cases: readonly (readonly [string, string, string, number, readonly string[]])[] = [
    // The local time that does not exist runs when the clocks have changed, and the one that comes
    // twice runs once.
    ['30 2 * * *', 'Europe/Berlin', '2026-03-27T12:00Z', 3, ['03-28T01:30', '03-29T01:00', '03-30T00:30']],
    ['30 2 * * *', 'Europe/Berlin', '2026-10-23T12:00Z', 3, ['10-24T00:30', '10-25T00:30', '10-26T01:30']],
    ['30 2 * * *', 'America/New_York', '2026-03-06T12:00Z', 3, ['03-07T07:30', '03-08T07:00', '03-09T06:30']],
    ['30 1 * * *', 'America/New_York', '2026-10-30T12:00Z', 3, ['10-31T05:30', '11-01T05:30', '11-02T06:30']],
    ['0 0 * * *', 'Africa/Cairo', '2026-04-22T12:00Z', 3, ['04-22T22:00', '04-23T22:00', '04-24T21:00']],
    ['30 0 * * *', 'Africa/Cairo', '2026-04-22T12:00Z', 3, ['04-22T22:30', '04-23T22:00', '04-24T21:30']],
    ['0 0 * * *', 'Africa/Cairo', '2026-10-28T12:00Z', 3, ['10-28T21:00', '10-29T22:00', '10-30T22:00']],
    ['30 23 * * *', 'Africa/Cairo', '2026-10-28T12:00Z', 3, ['10-28T20:30', '10-29T20:30', '10-30T21:30']],
    [
      '15 2 * * *',
      'Australia/Lord_Howe',
      '2026-10-02T00:00Z',
      3,
      ['10-02T15:45', '10-03T15:30', '10-04T15:15'],
    ],
    [
      '45 1 * * *',
      'Australia/Lord_Howe',
      '2026-04-03T00:00Z',
      3,
      ['04-03T14:45', '04-04T14:45', '04-05T15:15'],
    ],
  ];
  it.each(cases)('%s in %s from %s', async (expression, timeZone, from, days, expected) => {
    expect(await runsOf(expression, timeZone, from, days)).toEqual(expected);
  });

  const everyQuarter: readonly (readonly [string, string])[] = [
    ['Europe/Berlin', '2026-03-28T18:00Z'],
    ['Europe/Berlin', '2026-10-24T18:00Z'],
    ['America/New_York', '2026-11-01T00:00Z'],
    ['Africa/Cairo', '2026-10-29T12:00Z'],
    ['Australia/Lord_Howe', '2026-04-04T06:00Z'],
    ['Australia/Lord_Howe', '2026-10-03T06:00Z'],
  ];
  it.each(everyQuarter)('every quarter of an hour continues in %s from %s', async (timeZone, from) => {
    const startMs = Date.parse(from);
    const expected = Array.from({ length: 48 }, (_, n) =>
      new Date(startMs + (n + 1) * 900_000).toISOString().slice(5, 16),
    );
    expect(await runsOf('*/15 * * * *', timeZone, from, 0.5)).toEqual(expected);
  });
});

describe('the latest slot', () => {
  const every = (ms: number): { calls: number; next(after: Date): Date } => ({
    calls: 0,
    next(after) {
      this.calls += 1;
      return new Date(Math.floor(after.getTime() / ms) * ms + ms);
    },
  });

  it.each([
    ['the only one', 0, 1_500, 1_000],
    ['the one at this instant', 0, 2_000, 2_000],
    ['of a few', 0, 9_999, 9_000],
    ['of a million', 0, 1_000_000_500, 1_000_000_000],
    ['none yet', 0, 999, null],
  ])('is found: %s', (_, afterMs, nowMs, expected) => {
    const source = every(1_000);
    expect(new Slots(source, undefined).latest(afterMs, nowMs)).toBe(expected);
    expect(source.calls).toBeLessThan(10_000);
  });

  it('is found by looking back, where there is no earlier slot to follow from', () => {
    const slots = new Slots('0 5 * * *', 'UTC');
    const nowMs = Date.parse('2026-05-02T04:59:00Z');
    expect(slots.latest(nowMs - 365 * DAY_MS, nowMs)).toBe(Date.parse('2026-05-01T05:00:00Z'));
    expect(slots.latest(nowMs - 3_600_000, nowMs)).toBeNull();
  });

  it('is given up after 10,000 steps', () => {
    // Nothing in the last half, and very many slots just before it.
    const source = {
      calls: 0,
      next(after: Date) {
        this.calls += 1;
        const ms = after.getTime() + 1;
        return ms < 500_000 ? new Date(ms) : new Date(10_000_000);
      },
    };
    expect(new Slots(source, undefined).latest(0, 1_000_000)).toBeNull();
    expect(source.calls).toBeLessThanOrEqual(10_000);
    expect(source.calls).toBeGreaterThan(9_000);
  });
});

describe('what is not a schedule is refused', () => {
  const source = { next: (after: Date) => new Date(after.getTime() + 1) };
  it.each([
    ['a nickname', '@daily', undefined, 'when'],
    ['a date', '2026-01-01T00:00:00', undefined, 'when'],
    ['seven fields', '0 0 0 * * * 2030', undefined, 'when'],
    ['a value out of range', '61 * * * *', undefined, 'when'],
    ['nothing', '', undefined, 'when'],
    ['a number', 5, undefined, 'when'],
    ['null', null, undefined, 'when'],
    ['a time zone that does not exist', '* * * * *', 'Europe/Atlantis', 'timeZone'],
    ['a time zone of another type', '* * * * *', 1, 'timeZone'],
    ['a time zone for instants', source, 'UTC', 'timeZone'],
  ])('%s', (_, when, timeZone, argument) => {
    expect(() => new Slots(when as never, timeZone as never)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', argument }),
    );
  });

  it.each([
    ['goes back', new Date(0)],
    ['stands still', new Date(1_000)],
    ['gives no date', 2_000],
    ['gives an invalid date', new Date(Number.NaN)],
  ])('a source that %s', (_, next) => {
    const slots = new Slots({ next: () => next as Date }, undefined);
    expect(() => slots.next(1_000)).toThrow(expect.objectContaining({ argument: 'when' }));
  });
});
