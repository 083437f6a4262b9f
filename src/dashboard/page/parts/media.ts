import { useEffect, useState } from 'preact/hooks';

const NARROW = '(max-width: 760px)';
const DARK = '(prefers-color-scheme: dark)';

function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const update = () => setMatches(list.matches);
    update();
    list.addEventListener('change', update);
    return () => list.removeEventListener('change', update);
  }, [query]);
  return matches;
}

/** Whether tables have room for two columns only. */
export const useNarrow = (): boolean => useMedia(NARROW);

export const useDark = (): boolean => useMedia(DARK);
