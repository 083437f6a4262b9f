import type { Mode } from '../../store/store.ts';

/** A mode as the scripts write it: `x`, `s` or `p<count>/<of>`. */
export function modeText(mode: Mode): string {
  if (mode.kind === 'permits') return `p${mode.count}/${mode.of}`;
  return mode.kind === 'shared' ? 's' : 'x';
}

export function modeIn(text: string): Mode {
  const permits = /^p(\d+)\/(\d+)$/.exec(text);
  if (permits !== null) return { kind: 'permits', count: Number(permits[1]), of: Number(permits[2]) };
  return { kind: text === 's' ? 'shared' : 'exclusive' };
}
