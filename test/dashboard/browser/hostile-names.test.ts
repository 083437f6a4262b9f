import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocks, memoryStore } from '../../../src/index.ts';
import { openPage } from '../../support/dashboard/browser.ts';
import { type PageWorld, startPageWorld } from '../../support/dashboard/page-world.ts';
import { serveDashboard } from '../../support/dashboard/served-dashboard.ts';
import { eventually } from '../../support/waiting/eventually.ts';

/** Each is a name, an owner and metadata. Nothing of it may become anything but text. */
const TEXTS: Readonly<Record<string, string>> = {
  image: '<img src=x onerror="globalThis.hit=1">',
  script: '</script><script>globalThis.hit=1</script>',
  svg: '<svg/onload=globalThis.hit=1>',
  attribute: '" onmouseover="globalThis.hit=1" x="',
  javascript: 'javascript:globalThis.hit=1',
  template: `{{constructor.constructor("globalThis.hit=1")()}}$${'{globalThis.hit=1}'}`,
  style: '</style><style>body{display:none}</style>',
  formula: '=HYPERLINK("http://example.org","click")',
  entity: '&lt;b&gt; &amp; &#x3c;',
  prototype: '__proto__',
  constructor: 'constructor',
  override: 'pay-\u202egnp.exe',
  isolate: '\u2067txet\u2069 mixed',
  invisible: 'order\u200b:\u200d1\ufeff',
  spaces: ' lead\u00a0and\u3000trail ',
  combining: 'Z\u0351\u036b\u0343a\u0337\u0321l\u0334g\u0322o\u0335'.repeat(8),
  arabic: 'قفل-الطلب-42',
  emoji: '🔒👩‍👩‍👧‍👦🏴‍☠️',
  long: 'very-'.repeat(100),
  wide: '﷽'.repeat(40),
  path: '../../../etc/passwd?a=b#c%2F',
  plus: 'a+b c%20d',
};

/** An owner has at most 128 characters. */
const ownerOf = (text: string): string =>
  [...text]
    .slice(0, 60)
    .join('')
    .replace(/[^\P{C}]/gu, '?') || 'x';

let world: PageWorld;
const store = memoryStore();

beforeAll(async () => {
  world = await startPageWorld(() => store);
  for (const text of Object.values(TEXTS)) {
    await world
      .of(ownerOf(text))
      .mutex(text)
      .acquire({ metadata: { [text]: text, nested: { [text]: [text] } } });
  }
});
afterAll(() => world?.[Symbol.asyncDispose]());

/** As the page writes it: every hidden character is an escape. */
const shown = (text: string): string =>
  text.replace(/\u200d|[\u200b\ufeff\u202e\u2067\u2069\u00a0\u3000]/gu, (hidden, at: number) => {
    const isInEmoji = hidden === '\u200d' && /\p{Extended_Pictographic}/u.test(text.slice(at + 1, at + 3));
    return isInEmoji ? hidden : `\\u{${hidden.charCodeAt(0).toString(16).toUpperCase()}}`;
  });

describe('hostile names, owners and metadata', () => {
  it('are text in the list: nothing runs, nothing breaks out, no two look alike', async () => {
    await using opened = await world.open('#/locks', { viewport: { width: 1280, height: 1600 } });
    const { page } = opened;
    const links = page.locator('table.locks a.name');
    await eventually('all names', async () => (await links.count()) === Object.keys(TEXTS).length);
    const names = await links.evaluateAll((all) => all.map((each) => each.textContent ?? ''));
    expect(names.sort()).toEqual(Object.values(TEXTS).map(shown).sort());
    expect(new Set(names).size).toBe(names.length);
    const made = await page.evaluate(() => ({
      hit: 'hit' in globalThis,
      scripts: document.querySelectorAll('main script, main img, main style, main iframe').length,
      bidi: [...document.querySelectorAll('a.name')].every((each) => each.querySelector('bdi') !== null),
      width: document.documentElement.scrollWidth <= document.documentElement.clientWidth,
    }));
    expect(made).toEqual({ hit: false, scripts: 0, bidi: true, width: true });
    expect(opened.complaints).toEqual([]);
  });

  it('lead to the page of their own lock, and are shown there in full', async () => {
    await using opened = await world.open('#/locks', { viewport: { width: 1280, height: 1600 } });
    const { page } = opened;
    for (const text of [TEXTS.script, TEXTS.override, TEXTS.path, TEXTS.plus, TEXTS.long, TEXTS.emoji]) {
      const name = text ?? '';
      await page.goto(`${world.url}#/lock?${new URLSearchParams({ name })}`);
      await eventually(`the page of ${name}`, async () => {
        const heading = await page.getByRole('heading', { level: 1 }).textContent();
        return heading === shown(name) && (await page.locator('.holder').count()) === 1;
      });
      expect(await page.locator('.holder .metadata').innerText()).toContain(shown(name).trim());
      expect(await page.evaluate(() => 'hit' in globalThis)).toBe(false);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(1280);
    }
    expect(opened.complaints).toEqual([]);
  });

  it('can be confirmed by the escaped form that is shown, and evict only their own lock', async () => {
    const hostile = 'bank\u202e:1';
    const locks = createLocks(store, { owner: 'stuck' });
    await using served = await serveDashboard(locks);
    const hold = await locks.mutex(hostile).acquire({ renewEveryMs: 500 });
    const other = await locks.mutex('bank:1').acquire();
    await using opened = await openPage(
      world.browser,
      `${served.url}#/lock?${new URLSearchParams({ name: hostile })}`,
    );
    const { page } = opened;
    await page.locator('.holder').getByRole('button', { name: /Evict/ }).click();
    await page.getByLabel('Type the name of the lock to confirm').fill('bank:1');
    expect(await page.getByRole('button', { name: 'Evict this claim' }).isDisabled()).toBe(true);
    await page.getByLabel('Type the name of the lock to confirm').fill('bank\\u{202E}:1');
    await page.getByRole('button', { name: 'Evict this claim' }).click();
    await page.getByText('Evicted.').waitFor();
    expect((await locks.inspect(hostile)).holders).toEqual([]);
    expect((await locks.inspect('bank:1')).holders.map(({ id }) => id)).toEqual([other.id]);
    await eventually('the owner hears of it', () => hold.signal.aborted);
    await locks.close({ drainMs: 0 });
  });
});
