import { useEffect, useRef } from 'preact/hooks';
import type { LockState } from '../../api.ts';
import { showCount } from '../parts/durations.ts';
import { Sign } from '../parts/signs.tsx';
import type { Selected, Selection, SortKey } from './select-locks.ts';
import { KIND_WORDS, STATE_WORDS, USE_WORDS } from './words.tsx';

interface Props {
  readonly selection: Selection;
  readonly counts: Selected['counts'];
  readonly change: (part: Partial<Selection>) => void;
}

export function Filters({ selection, counts, change }: Props) {
  return (
    <>
      <search class="filters">
        <SearchField value={selection.search} change={(search) => change({ search })} />
        <Choice
          label="Use"
          value={selection.use}
          options={{ '': 'All uses', ...USE_WORDS }}
          change={(use) => change({ use })}
        />
        <Choice
          label="Kind"
          value={selection.kind}
          options={{ '': 'All kinds', ...KIND_WORDS }}
          change={(kind) => change({ kind })}
        />
        <SortChoice selection={selection} change={change} />
      </search>
      <States selection={selection} counts={counts} change={change} />
    </>
  );
}

/** The `/` key goes to the search, Escape empties it. */
function SearchField({ value, change }: { value: string; change: (value: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const { target } = event;
      const isTyping =
        target instanceof Element && target.closest('input, select, textarea, dialog') !== null;
      if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      input.current?.focus();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
  return (
    <div class="search">
      <Sign name="search" />
      <input
        ref={input}
        class="field"
        type="search"
        placeholder="Search names and holders"
        aria-label="Search names and holders"
        autocomplete="off"
        spellcheck={false}
        value={value}
        onInput={(event) => change(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') change('');
        }}
      />
      <span class="key" aria-hidden="true">
        /
      </span>
    </div>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: Readonly<Record<string, string>>;
  readonly change: (value: string) => void;
  readonly class?: string;
}

function Choice({ label, value, options, change, class: name = '' }: ChoiceProps) {
  return (
    <select
      class={`field ${name}`}
      aria-label={label}
      value={value}
      onChange={(event) => change(event.currentTarget.value)}
    >
      {Object.entries(options).map(([key, title]) => (
        <option key={key} value={key}>
          {title}
        </option>
      ))}
    </select>
  );
}

const SORT_WORDS: Readonly<Record<SortKey, string>> = {
  waiting: 'By queue',
  age: 'By age',
  lease: 'By lease',
  name: 'By name',
  owner: 'By holder',
};

/** A phone shows two columns: there the order is a choice of its own. */
function SortChoice({ selection, change }: Pick<Props, 'selection' | 'change'>) {
  return (
    <Choice
      label="Order"
      class="phone-only"
      value={selection.sort}
      options={SORT_WORDS}
      change={(value) => {
        const sort = value as SortKey;
        change({ sort, isDescending: sort === 'waiting' || sort === 'age' });
      }}
    />
  );
}

const STATES: readonly (LockState | 'held' | '')[] = ['', 'held', 'contended', 'long-held', 'expiring'];

function States({ selection, counts, change }: Props) {
  return (
    <fieldset class="states">
      <legend class="sr-only">State</legend>
      {STATES.map((state) => (
        <button
          key={state}
          type="button"
          class="state"
          aria-pressed={selection.state === state}
          onClick={() => change({ state })}
        >
          {state === 'contended' && <Sign name="contended" />}
          {state === 'long-held' && <Sign name="long" />}
          {state === 'expiring' && <Sign name="expiring" />}
          {state === '' ? 'All' : state === 'held' ? 'Held' : STATE_WORDS[state]}
          <span class="number">{showCount(counts[state === '' ? 'all' : state])}</span>
        </button>
      ))}
    </fieldset>
  );
}
