/*
 * The handoff in a queue of waiters.
 *
 * A release wakes the waiter at the front by a message, which may be lost. At most one process dies,
 * while it waits or while it holds, and sends nothing. Only the waiter at the front is granted.
 *
 * RELIABLE            no message is lost, and no process dies
 * NO_RETRY            a waiter asks only when it is woken, not after `retryAfterMs`
 * NO_POSITION_EXPIRY  the queue position of a dead waiter is never removed
 * NO_LEASE_EXPIRY     the lease of a dead holder never expires
 */
#define WAITERS 3
#define NOBODY 255

byte holder = NOBODY;
chan queue = [WAITERS] of { byte };
bool woken[WAITERS];
bool isDead[WAITERS];
bool isServed[WAITERS];
bool mayDie = true;
byte lastServed = NOBODY;

/* Everybody who lives has held the lock and released it. */
#define ends(n) (isServed[n] || isDead[n])
ltl served { <> (ends(0) && ends(1) && ends(2)) }

inline wakeFront() {
  if
  :: queue?[0] -> woken[0] = true
  :: queue?[1] -> woken[1] = true
  :: queue?[2] -> woken[2] = true
#ifndef RELIABLE
  :: skip /* lost */
#endif
  :: empty(queue)
  fi
}

/* Granted when the lock is free and this waiter is at the front of the queue. */
inline claim(me) {
  atomic {
    if
    :: holder == NOBODY && queue?[eval(me)] -> queue?eval(me); holder = me
    :: else
    fi
  }
}

inline dies(me) {
  atomic { mayDie -> mayDie = false; isDead[me] = true }
}

proctype Waiter(byte me) {
  queue!me;
  /* The first claim, which also enters the queue. */
  claim(me);
  do
  :: holder == me -> break
  :: holder != me && woken[me] -> woken[me] = false; claim(me)
#ifndef NO_RETRY
  :: holder != me -> claim(me)
#endif
#ifndef RELIABLE
  :: dies(me); goto ended
#endif
  od;
  if
  :: atomic { holder = NOBODY; isServed[me] = true; wakeFront() }
#ifndef RELIABLE
  :: dies(me)
#endif
  fi;
ended:
  skip
}

/* What expires by itself. No process is woken by that. */
proctype Time() {
  do
#ifndef NO_LEASE_EXPIRY
  :: atomic { holder != NOBODY && isDead[holder] -> holder = NOBODY }
#endif
#ifndef NO_POSITION_EXPIRY
  :: atomic { isDead[0] && queue??[0] -> queue??0 }
  :: atomic { isDead[1] && queue??[1] -> queue??1 }
  :: atomic { isDead[2] && queue??[2] -> queue??2 }
#endif
  :: ends(0) && ends(1) && ends(2) -> break
  od
}

init {
  atomic { run Waiter(0); run Waiter(1); run Waiter(2); run Time() }
}
