/*
 * A lease, and writes under it.
 *
 * A holder trusts its hold until its local deadline. The store lets the lease expire later. Between
 * the moment at which a holder looks at its deadline and the moment at which its write arrives, any
 * time may pass: the process is paused, or the write is delayed in the network.
 *
 * EARLY_EXPIRY  the store may let a lease expire that its holder still trusts
 * FENCED        the resource refuses a write with a fence below the greatest that it has seen
 * TWO_STEPS     the fence is checked first, and the write comes in a later step
 * CHECK_TRUST   two never trust their holds at once
 * CHECK_WRITES  no write comes after the write of a later holder
 */
#define WORKERS 3
#define ROUNDS 2
#define NOBODY 255

byte holder = NOBODY;     /* as the store sees it */
byte lastFence = 0;
byte fence[WORKERS];
bool trusts[WORKERS];     /* the local deadline has not passed */
byte greatest = 0;        /* the greatest fence that the resource has seen */
byte writtenBy = 0;       /* the fence of the last write */

inline grant(me) {
  atomic {
    holder == NOBODY ->
    holder = me;
    lastFence++;
    fence[me] = lastFence;
    trusts[me] = true;
#ifdef CHECK_TRUST
    assert(trusts[0] + trusts[1] + trusts[2] == 1);
#endif
  }
}

inline write(me) {
#ifdef CHECK_WRITES
  assert(fence[me] >= writtenBy);
#endif
  writtenBy = fence[me];
}

inline writeThroughGate(me) {
  if
#ifdef TWO_STEPS
  :: atomic { fence[me] >= greatest -> greatest = fence[me] }
     atomic { write(me) }
  :: fence[me] < greatest
#else
  :: atomic { fence[me] >= greatest -> greatest = fence[me]; write(me) }
  :: fence[me] < greatest
#endif
  fi
}

proctype Worker(byte me) {
  byte round = 0;
  do
  :: round < ROUNDS ->
    round++;
end_waiting:
    grant(me);
    if
    :: trusts[me] ->
#ifdef FENCED
      writeThroughGate(me)
#else
      atomic { write(me) }
#endif
    :: !trusts[me]
    fi;
    atomic {
      trusts[me] = false;
      if
      :: holder == me -> holder = NOBODY
      :: else
      fi
    }
  :: round == ROUNDS -> break
  od
}

/* Local deadlines pass, and leases expire. */
proctype Time() {
  byte who;
end_passing:
  do
  :: atomic { trusts[0] -> trusts[0] = false }
  :: atomic { trusts[1] -> trusts[1] = false }
  :: atomic { trusts[2] -> trusts[2] = false }
#ifdef EARLY_EXPIRY
  :: atomic { holder != NOBODY -> holder = NOBODY }
#else
  :: atomic { holder != NOBODY && !trusts[holder] -> holder = NOBODY }
#endif
  od
}

init {
  byte n = 0;
  atomic {
    do
    :: n < WORKERS -> run Worker(n); n++
    :: n == WORKERS -> break
    od;
    run Time()
  }
}
