import { createLocks } from '../locks.ts';
import { openStore } from '../open-store.ts';
import type { Finding, FindingLevel } from '../store/finding.ts';
import { EXIT } from './exit-code.ts';
import { parseDuration } from './option-values.ts';
import { print, printJson } from './print.ts';
import { presentable } from './report-error.ts';
import { type Paint, painter, type Style, table } from './text.ts';
import { giveUpAfter, rejectAfter } from './time-limit.ts';

export interface DoctorOptions {
  readonly ttl: string;
  readonly json?: boolean;
}

/** Longer than the diagnosis itself may take: the library limits the time of each part. */
const DIAGNOSE_MS = 30_000;
const CLOSE_MS = 1_000;

/** Checks the set-up, and prints what was found. The exit code is that of the worst finding. */
export async function doctor(url: string, options: DoctorOptions): Promise<number> {
  const ttlMs = parseDuration('--ttl', options.ttl);
  const findings = (await diagnose(url, ttlMs)).map(withoutSecrets);
  if (options.json === true) printJson(findings);
  else for (const line of doctorLines(findings, painter(process.stdout))) print(line);
  return exitCodeFor(findings);
}

async function diagnose(url: string, ttlMs: number): Promise<Finding[]> {
  // Not `openLocks`, which refuses a store that cannot be used: here its checks say why.
  const locks = createLocks(await openStore(url, { openLater: true }), { ttlMs });
  try {
    return await rejectAfter(DIAGNOSE_MS, locks.diagnose());
  } finally {
    await giveUpAfter(CLOSE_MS, locks.close({ drainMs: 0 }));
  }
}

/** The text of an error may come from another program. */
function withoutSecrets(finding: Finding): Finding {
  const { found, means, advice } = finding;
  const clean = { found: presentable(found), means: presentable(means) };
  return { ...finding, ...clean, advice: advice === null ? null : presentable(advice) };
}

function exitCodeFor(findings: readonly Finding[]): number {
  const has = (...levels: readonly FindingLevel[]): boolean =>
    findings.some(({ level }) => levels.includes(level));
  if (has('fail')) return EXIT.failed;
  return has('warn', 'unknown') ? EXIT.warned : EXIT.ok;
}

/** The text of a server may have several lines, which would look like findings of their own. */
function inOneLine(text: string): string {
  return text
    .split(/\s*\n\s*/)
    .join(' ')
    .trim();
}

const STYLES: Readonly<Record<FindingLevel, Style>> = {
  ok: 'green',
  warn: 'yellow',
  fail: 'red',
  unknown: 'cyan',
};
const INDENT = ' '.repeat(8);

/** One line for each finding; below a finding that is not ok, what it means and what to do. */
export function doctorLines(findings: readonly Finding[], paint: Paint): string[] {
  const flat = findings.map(({ found, means, advice, ...each }) => ({
    ...each,
    found: inOneLine(found),
    means: inOneLine(means),
    advice: advice === null ? null : inOneLine(advice),
  }));
  const rows = table(flat.map(({ level, check, found }) => [level, check, found]));
  return flat.flatMap(({ level, means, advice }, n) => {
    const row = rows[n] ?? '';
    const line = paint(STYLES[level], row.slice(0, level.length)) + row.slice(level.length);
    if (level === 'ok') return [line];
    return [line, INDENT + means, ...(advice === null ? [] : [INDENT + paint('bold', advice)])];
  });
}
