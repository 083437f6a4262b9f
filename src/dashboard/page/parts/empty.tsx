import type { ComponentChildren } from 'preact';

/** What stands where a list would, when there is nothing to list. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}
