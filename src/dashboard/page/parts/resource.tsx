import type { ComponentChildren } from 'preact';
import type { Loaded } from '../data/use-json.ts';
import { Empty } from './empty.tsx';

interface Props<T> {
  readonly title: string;
  readonly about: string;
  readonly loaded: Loaded<T>;
  readonly children: (data: T) => ComponentChildren;
}

/** A page that shows one answer of the API, or why there is none. */
export function Resource<T>({ title, about, loaded: { data, failure, reload }, children }: Props<T>) {
  return (
    <>
      <div class="page-head">
        <h1>{title}</h1>
        <span class="muted">{about}</span>
      </div>
      {failure !== null && (
        <p class="banner bad">
          {failure.message}
          {data !== null && ' What you see is from before.'}
          <button type="button" class="button small" onClick={reload}>
            Try again
          </button>
        </p>
      )}
      {data === null && failure === null && <Empty title="Reading …" />}
      {data !== null && children(data)}
    </>
  );
}
