import type { ComponentChildren } from 'preact';

interface Props {
  readonly term: string;
  /** The class of the row: `wide` for one that fills a line. */
  readonly class?: string;
  readonly valueClass?: string;
  readonly children: ComponentChildren;
}

/** One row of a list of details. */
export function Detail({ term, class: name, valueClass, children }: Props) {
  return (
    <div class={name}>
      <dt>{term}</dt>
      <dd class={valueClass}>{children}</dd>
    </div>
  );
}
