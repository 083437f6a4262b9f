import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { check, QUESTIONS } from '../../models/check-models.ts';

describe('the models', () => {
  it.each(QUESTIONS)('$model: $asks: $given: $answer', { timeout: 240_000 }, async (question) => {
    expect((await check(question)).answer).toBe(question.answer);
  });

  it('are all on the page, with the answers that they give', async () => {
    const page = await readFile(new URL('../../docs/models.md', import.meta.url), 'utf8');
    const rows = QUESTIONS.map(({ asks, given, answer }) => [asks, given, answer]);
    const cells = page.split('\n').map((line) =>
      line
        .split('|')
        .map((cell) => cell.trim())
        .slice(1, -1),
    );
    for (const row of rows) expect(cells).toContainEqual(row);
  });
});
