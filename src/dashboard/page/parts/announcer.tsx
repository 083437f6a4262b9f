import { useEffect, useState } from 'preact/hooks';

type Listener = (text: string) => void;

const listeners = new Set<Listener>();
const QUIET_MS = 1000;

/** Says something to screen readers: results and connection changes, never the ticking of a lock. */
export function announce(text: string): void {
  for (const listener of listeners) listener(text);
}

/** The page's only live region. Of several announcements within a second it says the last. */
export function Announcer() {
  const [text, setText] = useState('');
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const listener: Listener = (next) => {
      clearTimeout(timer);
      timer = setTimeout(() => setText(next), QUIET_MS);
    };
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      clearTimeout(timer);
    };
  }, []);
  return (
    <div class="sr-only" role="status" aria-live="polite">
      {text}
    </div>
  );
}
