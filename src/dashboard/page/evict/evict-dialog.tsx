import { useEffect, useRef, useState } from 'preact/hooks';
import type { ClaimSummary, EvictAnswer, LockSummary } from '../../api.ts';
import { postEvict, RequestFailure } from '../data/client.ts';
import { Metadata, Owner } from '../lock/holders.tsx';
import { modeWords, USE_WORDS } from '../locks/words.tsx';
import { Detail } from '../parts/detail.tsx';
import { Age, Until } from '../parts/ticking.tsx';
import { VisibleText, visible } from '../parts/visible-text.tsx';
import { type Outcome, Result } from './result.tsx';

interface Props {
  readonly lock: LockSummary;
  /** As it was when the viewer chose it. What changes meanwhile is not evicted in its stead. */
  readonly claim: ClaimSummary;
  readonly onClose: () => void;
}

const ABOUT_HOLD =
  'The store takes this claim away, and the next waiter gets the lock. The owner is told that its hold ' +
  'is lost; until it stops, only a fence gate keeps its writes out.';
const ABOUT_WAITER = 'The store takes this claim out of the queue. The owner may ask again.';

/** Asks for the lock's name before it takes one claim away, and says what happened. */
export function EvictDialog({ lock, claim, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  useEffect(() => {
    const element = dialog.current;
    const opener = document.activeElement;
    element?.showModal();
    return () => {
      element?.close();
      // The button that opened the dialog is gone when its claim is.
      const back =
        opener instanceof HTMLElement && opener.isConnected ? opener : document.querySelector('main');
      back?.focus();
    };
  }, []);
  const isHeld = claim.fence !== null || claim.heldSinceMs !== null;
  return (
    <dialog
      ref={dialog}
      aria-labelledby="evict-title"
      aria-describedby="evict-about"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <h2 id="evict-title">
        {isHeld ? 'Evict this hold' : 'Evict this waiter'}
        {outcome === null && '?'}
      </h2>
      <p id="evict-about" class="muted">
        {isHeld ? ABOUT_HOLD : ABOUT_WAITER}
      </p>
      <Shown lock={lock} claim={claim} isHeld={isHeld} />
      {outcome === null ? (
        <Confirm lock={lock} claim={claim} onOutcome={setOutcome} onClose={onClose} />
      ) : (
        <Result outcome={outcome} onClose={onClose} />
      )}
    </dialog>
  );
}

/** Exactly what will be evicted. */
function Shown({ lock, claim, isHeld }: { lock: LockSummary; claim: ClaimSummary; isHeld: boolean }) {
  return (
    <dl class="details boxed">
      <Detail term={USE_WORDS[lock.use]} class="wide" valueClass="mono wrap">
        <VisibleText value={lock.name} />
      </Detail>
      <Detail term="Claim" class="wide" valueClass="mono wrap">
        <VisibleText value={claim.id} />
      </Detail>
      <Detail term="Owner" class="wide">
        <Owner claim={claim} />
      </Detail>
      <Detail term="Fence" valueClass="mono">
        {claim.fence ?? (isHeld ? 'unknown' : 'none, it waits')}
      </Detail>
      {isHeld ? (
        <Detail term="Held for">
          <Age sinceMs={claim.heldSinceMs} />
        </Detail>
      ) : (
        <Detail term="Position expires in">
          <Until atMs={claim.expiresAtMs} passed="expired" />
        </Detail>
      )}
      <Detail term="Asked for">{modeWords(claim)}</Detail>
      <Metadata metadata={claim.metadata} />
    </dl>
  );
}

interface ConfirmProps extends Props {
  readonly onOutcome: (outcome: Outcome) => void;
}

function Confirm({ lock, claim, onOutcome, onClose }: ConfirmProps) {
  const input = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState('');
  const [isSending, setSending] = useState(false);
  useEffect(() => input.current?.focus(), []);
  // A name with characters that no keyboard has may be typed as it is shown.
  const isConfirmed = typed === lock.name || typed === visible(lock.name);
  const send = async (): Promise<void> => {
    setSending(true);
    const { name, use } = lock;
    onOutcome(await evict({ name, use, id: claim.id, fence: claim.fence, confirm: name }));
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (isConfirmed && !isSending) void send();
      }}
    >
      <label for="evict-confirm">Type the name of the lock to confirm</label>
      <input
        ref={input}
        id="evict-confirm"
        class="field mono"
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
      <div class="buttons">
        <button type="button" class="button" onClick={onClose}>
          Cancel
        </button>
        <button type="submit" class="button danger solid" disabled={!isConfirmed || isSending}>
          {isSending ? 'Evicting …' : 'Evict this claim'}
        </button>
      </div>
    </form>
  );
}

async function evict(request: Parameters<typeof postEvict>[0]): Promise<Outcome> {
  try {
    const answer: EvictAnswer = await postEvict(request);
    return answer;
  } catch (error) {
    const status = error instanceof RequestFailure ? error.status : 0;
    const message = error instanceof Error ? error.message : `${error}`;
    return { outcome: status === 0 || status >= 500 ? 'failed' : 'refused', message, holders: null };
  }
}
