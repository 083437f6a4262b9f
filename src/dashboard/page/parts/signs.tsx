/** Small drawings that say with a shape what a colour says too. They are hidden from screen readers. */

const PATHS = {
  contended: 'M2 9.5h8M2 6h6M2 2.5h4',
  long: 'M6 1.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M6 3.5V6l2 1.5',
  expiring: 'M6 1.2 11 10.3H1zM6 5v2M6 8.6v.1',
  search: 'M5.5 1.5a4 4 0 1 0 0 8 4 4 0 0 0 0-8M8.6 8.6 12 12',
  crown: 'M1.5 9.5h9l.5-6-3 2.2L6 2 4 5.7 1 3.5z',
} as const;

export type SignName = keyof typeof PATHS;

export function Sign({ name }: { name: SignName }) {
  return (
    <svg class="sign" viewBox="0 0 12 12" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

/** A rope around a post. */
export function Mark() {
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d="M12 3v18M7 21h10M8 3h8" />
      <path d="M4 9c3 2.5 13 2.5 16 0M4 14c3 2.5 13 2.5 16 0" />
    </svg>
  );
}
