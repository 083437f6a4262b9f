/*
 * The fence of a Redlock claim: a number that a majority of the nodes has stored for it.
 *
 * Clients propose numbers from clocks that may be wrong. A node may let a claim expire early, because
 * its clock has jumped, so two clients may hold at once. Even then every fence is new, and above the
 * fence of every claim that was granted before this claim began.
 *
 * MAXIMUM    the fence is the greatest number of the first round, without a second round
 * LOST_DATA  a node may restart without its data
 * FAULTS     how many claims may expire early and how many nodes may restart, together; 1 unless set
 */
#define NODES 3
#define MAJORITY 2
#define FENCES 32
#define FREE 0
#ifndef FAULTS
#define FAULTS 1
#endif

byte holder[NODES];   /* the claim that the node holds */
byte number[NODES];   /* stored for that claim */
byte counter[NODES];  /* never below a number that the node has stored */
byte claims = 0;
byte latest = 0;      /* the greatest fence of a granted claim */
bool isUsed[FENCES];
byte faults = FAULTS;

#define max(a, b) ((a) > (b) -> (a) : (b))

inline vote(n) {
  atomic {
    asked = asked | (1 << n);
    if
    :: holder[n] == FREE ->
      holder[n] = id;
      number[n] = (proposed > counter[n] -> proposed : counter[n] + 1);
      counter[n] = number[n];
      got[n] = number[n];
      votes++
    :: else
    fi
  }
}

inline merge(n) {
  atomic {
    asked = asked | (1 << n);
    got[n] = 0;
    if
    :: holder[n] == id ->
      number[n] = max(number[n], wanted);
      counter[n] = max(counter[n], number[n]);
      got[n] = number[n]
    :: else
    fi
  }
}

/* The number that a majority has stored, or 0. */
inline agree() {
  fence = 0;
  if
  :: got[0] != 0 && (got[0] == got[1] || got[0] == got[2]) -> fence = got[0]
  :: got[1] != 0 && got[1] == got[2] -> fence = got[1]
  :: else
  fi
}

inline takeBack(n) {
  atomic {
    if
    :: holder[n] == id -> holder[n] = FREE
    :: else
    fi
  }
}

proctype Client(byte turns) {
  byte turn = 0, id, proposed, before, seen = 0, asked, votes, wanted, fence;
  byte got[NODES];
  do
  :: turn == turns -> break
  :: turn < turns ->
    atomic {
      turn++;
      claims++;
      id = claims;
      before = latest;
      got[0] = 0; got[1] = 0; got[2] = 0;
      asked = 0; votes = 0; wanted = 0;
      if
      :: proposed = seen + 1
      :: proposed = seen + 3
      fi
    }
    do
    :: !(asked & 1) -> vote(0)
    :: !(asked & 2) -> vote(1)
    :: !(asked & 4) -> vote(2)
    :: asked == 7 || votes >= MAJORITY -> break
    od;
    atomic {
      agree();
      wanted = max(got[0], max(got[1], got[2]));
      asked = 0
    }
    if
    :: votes >= MAJORITY && fence == 0 ->
#ifdef MAXIMUM
      fence = wanted
#else
      do
      :: !(asked & 1) -> merge(0)
      :: !(asked & 2) -> merge(1)
      :: !(asked & 4) -> merge(2)
      :: asked == 7 -> break
      od;
      atomic { agree() }
#endif
    :: else
    fi;
    if
    :: atomic {
      fence != 0 ->
      assert(fence < FENCES);
      assert(fence > before);
      assert(!isUsed[fence]);
      isUsed[fence] = true;
      latest = max(latest, fence);
      seen = max(seen, fence)
    }
    :: fence == 0
    fi;
    takeBack(0);
    takeBack(1);
    takeBack(2);
    /* Forgotten, so that histories which differ in the past alone become one state. */
    atomic {
      id = 0; proposed = 0; before = 0; wanted = 0; fence = 0; votes = 0; asked = 0;
      got[0] = 0; got[1] = 0; got[2] = 0
    }
  od
}

proctype Faults() {
end_of_faults:
  do
  :: atomic { faults > 0 && holder[0] != FREE -> faults--; holder[0] = FREE }
  :: atomic { faults > 0 && holder[1] != FREE -> faults--; holder[1] = FREE }
  :: atomic { faults > 0 && holder[2] != FREE -> faults--; holder[2] = FREE }
#ifdef LOST_DATA
  :: atomic { faults > 0 -> faults--; holder[0] = FREE; number[0] = 0; counter[0] = 0 }
  :: atomic { faults > 0 -> faults--; holder[1] = FREE; number[1] = 0; counter[1] = 0 }
#endif
  od
}

init {
  atomic { run Client(2); run Client(1); run Faults() }
}
