/* The metadata lease. PART 1: between a ConfigNode and DataNodes. PART 2: inside one DataNode, where a batch is decided.
 *
 * PART 1. Two messages, each a fact that stays true however late, lost, doubled or out of order it arrives:
 *   status  holder -> grantor   {boot, asked_at, promise}            "date a lease from this instant of my clock; I trust nothing below version `promise`, and never will again"
 *   offer   grantor -> holder   {term, asked_at, version, floor, content?}  "a lease of T from that instant, for caches of at least `version`; all up to `floor` is complete; here is the content"
 * A heartbeat is an offer without content, a broadcast an offer with it, an acknowledgement and an "I am fenced" are both a status, a pull is a status answered by an offer with content.
 * `applied` here is what is published *and* closed inside the node (PART 2): a grant for a version is used only once that version is promised.
 * A boot is one life of a DataNode's process. Two boots may be one node restarted, or a copy of it started twice.
 * Time is relative (what is left of a lease, how old a request is), so the state space is finite without a horizon. Network: SLOTS messages in flight a boot and direction;
 * a message can be delivered again until its slot is used again. Unsafe: a change is complete, and a live boot still trusts less inside its lease.
 *
 * docs/lease.md has the rules in words; test_sim_spin_grant.py and test_sim_spin_decide.py run what fits; lease/ is the code.
 *
 *   spin -DPART=1 -DBOOTS=2 -DV=1 -a lease.pml && gcc -O2 -w -DSAFETY -DCOLLAPSE -DNOREDUCE -DVECTORSZ=2048 -DMEMLIM=7500 pan.c -o pan && ./pan -E -m3000000 -n
 *
 * BREAK takes one rule away; each must be found unsafe:
 *   1 renew at receipt              (SLOTS=1)           9 a removed node is not waited for          (BOOTS=2 V=1)
 *   2 "fenced" counts, but an older pull answer is let in afterwards (SLOTS=2)
 *   3 grants hold for any version   (SLOTS=2)          12 the old leader has no end                 (LEADERS=2 V=1 SLOTS=2)
 *   4 promises count by node, not by boot (BOOTS=2 V=1) 14 a boot may be granted by a leader that has not committed its registration (T=1 M=0 BOOTS=2 LEADERS=2 V=1)
 *   5 a new leader does not wait for the old one (LEADERS=2 V=1 S=3)      6 nor for its leases (LEADERS=2 V=1 SLOTS=2)
 *   7 the rule used upstream: renew at receipt of anything, count from the last answer plus the margin (SLOTS=2)
 *   and M=0 with DRIFT=2; and 20, a holder's clock that stands still: outside the assumptions.
 * Taken away without harm (defence in depth): 11 an older term is refused; 21 a holder below `floor` is fenced at once (it matters with 20: it ends the damage at the next offer).
 * REACH=1,2,3 must be found "violated": complete by promise, complete by expiry, complete under a second leader.
 *
 * PART 2, see there:  spin -DPART=2 -a lease.pml && gcc -O2 -w -DSAFETY pan.c -o pan && ./pan -E -m100000 -n
 */
#ifndef PART
#define PART 1
#endif
#ifndef T
#define T 2           /* length of a lease */
#endif
#if PART == 1

#ifndef M
#define M 1           /* margin */
#endif
#ifndef S
#define S 1           /* ticks that an old leader may go on granting */
#endif
#ifndef V
#define V 2           /* metadata changes, 1 or 2 */
#endif
#ifndef BOOTS
#define BOOTS 1       /* 1 or 2 */
#endif
#ifndef SLOTS
#define SLOTS 1       /* 1 or 2 */
#endif
#ifndef LEADERS
#define LEADERS 1     /* 2: a change of leader at any moment; the old one goes on for S ticks */
#endif
#ifndef DRIFT
#define DRIFT 0       /* n > 0: the clock of holder 0 may miss one tick after each n good ones */
#endif
#ifndef BREAK
#define BREAK 0
#endif
#ifndef REACH
#define REACH 0
#endif
#define N (BOOTS*SLOTS)
#define MAX(x,y) ((x) > (y) -> (x) : (y))

/* holders */
bool alive[BOOTS]; bool normal[BOOTS]; byte left[BOOTS]; byte applied[BOOTS]; byte promise[BOOTS]; byte h_term[BOOTS]; byte good[BOOTS];
/* messages; an age of T means: no lease in it */
byte o_age[N]; byte o_ver[N]; byte o_floor[N]; bool o_full[N]; byte o_term[N];
byte s_age[N]; byte s_prom[N];
/* what the present leader knows of a boot: the newest request's age and how long ago it came, its promise, what is left of its grants (margin included),
 * and that same figure frozen when change 1 and change 2 got their version */
byte k_age[BOOTS]; byte k_ans[BOOTS]; byte k_prom[BOOTS]; byte granted[BOOTS]; byte wait1[BOOTS]; byte wait2[BOOTS];
/* the ConfigNode's store, committed: newest version, newest complete version */
byte ver = 0; byte done = 0;
/* leadership: what the old leader had when the new one was elected */
byte term = 0; byte linger = 0; byte old_ver = 0; byte old_floor = 0; byte old_boots = 0;
byte b; byte m; byte c1; byte c2;

#if BREAK == 11
#define TERM_OK(b,m) (alive[b])
#else
#define TERM_OK(b,m) (alive[b] && o_term[m] >= h_term[b])
#endif
#if BREAK == 12
#define OLD_GRANTS (term == 1 && b < old_boots)
#elif BREAK == 14
#define OLD_GRANTS (linger > 0 && alive[b])
#else
#define OLD_GRANTS (linger > 0 && b < old_boots)
#endif
#if BREAK == 3
#define USABLE(b,m) (o_age[m] < T)
#else
#define USABLE(b,m) (o_age[m] < T && applied[b] >= o_ver[m])
#endif
#if BREAK == 2
#define HIGH_ENOUGH(b,m) (o_ver[m] >= applied[b])
#else
#define HIGH_ENOUGH(b,m) (o_ver[m] >= promise[b])
#endif
#define OK1(x) (k_prom[x] >= 1 || wait1[x] == 0)
#define OK2(x) (k_prom[x] >= 2 || wait2[x] == 0)
#if BOOTS == 1
#define ALL1 OK1(0)
#define ALL2 OK2(0)
#elif BREAK == 9
#define ALL1 OK1(1)
#define ALL2 OK2(1)
#else
#define ALL1 (OK1(0) && OK1(1))
#define ALL2 (OK2(0) && OK2(1))
#endif
#define TRUSTS(x) (alive[x] && normal[x] && left[x] > 0)

inline check() {
  b = 0; do :: b < BOOTS -> assert(!(TRUSTS(b) && applied[b] < done)); b++ :: else -> break od; b = 0;
#if REACH == 1
  assert(!(done == V && TRUSTS(0) && applied[0] == V && k_prom[0] == V))
#elif REACH == 2
  assert(!(done == V && k_prom[0] < V && ver == V))
#elif REACH == 3
  assert(!(done == V && term == 1 && TRUSTS(0)))
#endif
}
inline some_boot() { if :: b = 0 :: (BOOTS > 1) -> b = BOOTS - 1 fi; if :: m = b*SLOTS :: (SLOTS > 1) -> m = b*SLOTS + SLOTS - 1 fi }

init {
  d_step {
    b = 0; do :: b < BOOTS -> alive[b] = (b == 0); normal[b] = (b == 0); left[b] = (b == 0 -> T : 0); granted[b] = (b == 0 -> T + M : 0); k_age[b] = T; k_ans[b] = T + M; b++ :: else -> break od; b = 0;
    m = 0; do :: m < N -> o_age[m] = T; s_age[m] = T; m++ :: else -> break od; m = 0
  }
  do
  /* time: the grantor's clock always moves, a holder's may miss a tick */
  :: atomic { c1 = 1; c2 = 1;
#if DRIFT > 0
       if :: skip :: (good[0] >= DRIFT) -> c1 = 0 fi;
#endif
#if BREAK == 20
       if :: skip :: c1 = 0 fi;
#endif
       d_step {
       b = 0; do :: b < BOOTS ->
         if :: ((b == 0 && c1) || (b > 0 && c2)) ->
              if :: left[b] > 0 -> left[b]-- :: else fi;
              if :: good[b] < DRIFT -> good[b]++ :: else fi;
              if :: k_age[b] < T -> k_age[b]++ :: else fi;
              m = b*SLOTS; do :: m < (b+1)*SLOTS ->
                if :: o_age[m] < T -> o_age[m]++ :: else if :: !o_full[m] -> o_ver[m] = 0 :: else fi fi;   /* what nobody reads any more is zeroed: fewer states */
                if :: s_age[m] < T -> s_age[m]++ :: else fi; m++ :: else -> break od
            :: else -> good[b] = 0
         fi;
         if :: k_ans[b] < T + M -> k_ans[b]++ :: else fi;
         if :: granted[b] > 0 -> granted[b]-- :: else fi;
         if :: wait1[b] > 0 -> wait1[b]-- :: else fi;
         if :: wait2[b] > 0 -> wait2[b]-- :: else fi;
         b++ :: else -> break od;
       if :: linger > 0 -> linger-- :: else -> if :: BREAK != 12 -> old_ver = 0; old_floor = 0; old_boots = 0 :: else fi fi;
       c1 = 0; c2 = 0; m = 0; check() } }

  /* holder: a status, at any time */
  :: atomic { some_boot(); d_step { alive[b] ->
       if :: normal[b] && left[b] == 0 -> normal[b] = false :: else fi;
       s_age[m] = 0; s_prom[m] = (normal[b] -> applied[b] : promise[b]); b = 0; m = 0 } }

  /* grantor: a status arrives */
  :: atomic { some_boot(); d_step { s_age[m] < T || s_prom[m] > k_prom[b] ->
       k_prom[b] = MAX(k_prom[b], s_prom[m]);
#if BREAK == 4
       c1 = 0; do :: c1 < BOOTS -> k_prom[c1] = MAX(k_prom[c1], s_prom[m]); c1++ :: else -> break od; c1 = 0;
#endif
#if BREAK == 7
       granted[b] = T + M; wait1[b] = T + M; wait2[b] = T + M;
#endif
       if :: s_age[m] < k_age[b] -> k_age[b] = s_age[m]; k_ans[b] = 0 :: else fi; b = 0; m = 0 } }

  /* grantor: an offer, with content or without. Its own bound is noted before the offer leaves */
  :: atomic { some_boot(); if :: c1 = 0 :: c1 = 1 fi; d_step { alive[b] ->
       o_term[m] = term; o_ver[m] = ver; o_floor[m] = done; o_full[m] = c1; o_age[m] = k_age[b];
       if :: BREAK != 7 && k_age[b] < T && T + M > k_ans[b] -> granted[b] = MAX(granted[b], T + M - k_ans[b]) :: else fi; c1 = 0; b = 0; m = 0 } }

#if LEADERS > 1
  /* the old leader goes on for a while: with any status that is on its way, and what it knew */
  :: atomic { some_boot(); if :: c1 = 0 :: c1 = 1 fi; d_step { OLD_GRANTS ->
       o_term[m] = 0; o_ver[m] = old_ver; o_floor[m] = old_floor; o_full[m] = c1; o_age[m] = s_age[m]; c1 = 0; b = 0; m = 0 } }
  :: d_step { term == 0 -> term = 1; linger = S; old_ver = ver; old_floor = done; old_boots = (BOOTS > 1 && alive[BOOTS-1] -> 2 : 1);
       b = 0; do :: b < BOOTS -> k_age[b] = T; k_ans[b] = T + M; k_prom[b] = 0;
#if BREAK == 5
         granted[b] = (alive[b] -> T + M : 0);
#elif BREAK == 6
         granted[b] = 0;
#else
         granted[b] = (alive[b] -> T + S + M : 0);
#endif
         wait1[b] = granted[b]; wait2[b] = granted[b]; b++ :: else -> break od; b = 0 }
#endif

  /* holder: an offer arrives */
  :: atomic { some_boot(); d_step { TERM_OK(b, m) ->
       h_term[b] = o_term[m];
       if :: normal[b] && left[b] == 0 -> normal[b] = false :: else fi;                                       /* lapsed */
       if :: BREAK != 21 && normal[b] && applied[b] < o_floor[m] -> normal[b] = false :: else fi;             /* overtaken */
       if
       :: normal[b] ->
            if :: o_full[m] && o_ver[m] > applied[b] -> applied[b] = o_ver[m]; promise[b] = o_ver[m] :: else fi;
#if BREAK == 1
            if :: applied[b] >= o_ver[m] -> left[b] = T :: else fi
#elif BREAK == 7
            left[b] = T
#else
            if :: USABLE(b, m) -> left[b] = MAX(left[b], T - o_age[m]) :: else fi
#endif
       :: else ->
            if :: o_full[m] && HIGH_ENOUGH(b, m) && o_age[m] < T -> applied[b] = o_ver[m]; promise[b] = MAX(promise[b], o_ver[m]); normal[b] = true; left[b] = T - o_age[m]
               :: else -> promise[b] = MAX(promise[b], o_ver[m])
            fi
       fi; b = 0; m = 0; check() } }

  /* a metadata change gets its version: committed first, then told */
  :: d_step { ver < V -> ver++;
       b = 0; do :: b < BOOTS -> if :: ver == 1 -> wait1[b] = granted[b] :: else -> wait2[b] = granted[b] fi; b++ :: else -> break od; b = 0 }
  /* the verdict: every boot has promised, or its leases from before the change are over */
  :: d_step { ver >= 1 && done == 0 && ALL1 -> done = 1; check() }
  :: d_step { ver >= 2 && done < 2 && ALL2 -> done = 2; check() }

#if BOOTS > 1
  /* another boot registers: committed, so by the present leader alone. What it is ever given is not below today's version */
  :: d_step { !alive[1] -> alive[1] = true; k_prom[1] = ver; granted[1] = 0; wait1[1] = 0; wait2[1] = 0 }
#endif
  od
}

#else  /* PART 2 */

/* One DataNode from inside (docs/lease.md, "Where a batch is decided"): a writer with one batch, the lane, the plane, two readers; the end of a lease or a metadata change between any two steps.
 * The clock is what is left of the lease; nobody has to run in time, so every pause (SIGSTOP, a preempted thread, a slow disk) is in here. Memory is sequentially consistent.
 * Change 1 touches the batch's table: a batch of version 0 no longer fits under version 1.
 *
 * DECIDE 0  look, make visible, look again, withdraw on failure      1  the lane decides once, in its section, by deadline, clock and the batch's view (epoch, version)
 *        2  as 1, but by deadline, clock and epoch alone
 * CLOSE  1  the plane waits until nobody is inside the section before it promises and before it is NORMAL again      0  it does not
 * ASYNC  1  the writer may decide for itself, beside the lane        LOCK 1  one decider at a time: the slot is taken, by a fence too     0  it is only stored to
 * GATE   1  a grant is used once its version is promised             0  once it is published
 * CHECK  1  a batch that was refused comes up, or a row that was answered goes away.   2  a batch of version 0 is decided after version 1 was promised, or after a reader of version 1
 *           was answered without it.   3  a read under version 0 takes V after the change is complete.   0  all of them
 *
 *   violated                              CHECK 1   2    3
 *   DECIDE 0 (CLOSE 0)                      yes    no    no
 *   DECIDE 2                                no     yes   no
 *   DECIDE 1, CLOSE 0                       no     yes   no
 *   DECIDE 1, CLOSE 1                       no     no    no
 *   DECIDE 1, CLOSE 1, GATE 0               no     yes   no
 *   DECIDE 1, CLOSE 1, ASYNC 1, LOCK 0      yes    yes   no
 *   DECIDE 1, CLOSE 1, ASYNC 1, LOCK 1      no     no    no
 *   (RVIEW 0: readers look at the epoch, not at the version: CHECK 3 violated)
 */
#ifndef DECIDE
#define DECIDE 1
#endif
#ifndef CLOSE
#define CLOSE 1
#endif
#ifndef ASYNC
#define ASYNC 0
#endif
#ifndef LOCK
#define LOCK 1
#endif
#ifndef GATE
#define GATE 1
#endif
#ifndef RVIEW
#define RVIEW 1
#endif
#ifndef CHECK
#define CHECK 0
#endif
#if GATE
#define MAY_RENEW promised
#else
#define MAY_RENEW (version == 1)
#endif
#define VALID (normal && left > 0)
#define A1(x) assert(CHECK == 2 || CHECK == 3 || (x))
#define A2(x) assert(CHECK == 1 || CHECK == 3 || (x))
#define A3(x) assert(CHECK == 1 || CHECK == 2 || (x))

mtype = { NONE, RESERVED, PUBLISHED, VISIBLE, VOID };
byte left = T; byte old_left = T;   /* what is left of the lease; of what was granted for version 0, as the grantor counts it */
bool normal = true; byte epoch = 0; byte version = 0;   /* deadline and view, the schema snapshot */
bool inside = false;                /* the lane's slot */
bool fence_asked = false;
mtype batch = NONE; bool refused = false; byte w_version = 0; byte w_epoch = 0;
bool change_begun = false; bool promised = false; bool expired = false;   /* expired: the grantor has seen the leases of version 0 end */
#define COMPLETE (promised || expired)
bool shown = false;                 /* a reader was answered with the batch in it */
bool missed_new = false;            /* a reader was answered under version 1 without the batch, the change being complete */
bool late = false;

active proctype clock() {
  do
  :: d_step { left > 0 || old_left > 0 -> if :: left > 0 -> left-- :: else fi; if :: old_left > 0 -> old_left-- :: else fi }
  :: d_step { old_left == 0 && change_begun -> expired = true }
  od
}

#define UNDECIDED (batch == RESERVED || batch == PUBLISHED)
#define SHOW batch = VISIBLE; late = (w_version == 0 && (promised || missed_new)); A1(!refused)
#if DECIDE == 2
#define FITS (VALID && epoch == w_epoch)
#else
#define FITS (VALID && epoch == w_epoch && version == w_version)
#endif
#if LOCK
#define ENTER d_step { !inside -> inside = true }
#else
#define ENTER inside = true
#endif

inline decide() {
  ENTER;
  if
  :: d_step { batch == PUBLISHED && FITS -> skip };
#if DECIDE == 0
     d_step { SHOW };
     if :: d_step { FITS -> A2(!late) } :: d_step { !FITS -> A1(!shown); batch = VOID; refused = true } fi
#else
     d_step { SHOW; A2(!late) }
#endif
  :: d_step { !(batch == PUBLISHED && FITS) -> if :: batch == PUBLISHED -> batch = VOID; refused = true :: else fi }
  fi;
  inside = false
}

active proctype lane() {
  do
  :: batch == PUBLISHED -> decide()
  :: fence_asked ->
#if LOCK
     ENTER;
#endif
     d_step { if :: UNDECIDED -> batch = VOID; refused = true :: else fi; fence_asked = false };
#if LOCK
     inside = false
#endif
  od
}

active proctype plane() {
  bool telling;
  do
  :: d_step { !change_begun -> change_begun = true }
  :: d_step { change_begun && VALID && version == 0 -> version = 1 }; telling = true      /* publish, full fence */
  :: d_step { telling && (!CLOSE || !inside) -> promised = true; telling = false }
  :: d_step { VALID && !change_begun -> left = T; old_left = T }
  :: d_step { VALID && MAY_RENEW -> left = T }                             /* a grant for version 1 */
  :: d_step { normal && left == 0 -> normal = false; epoch++ };            /* fence; lanes void or have nothing; pull; come back */
     fence_asked = true; !fence_asked;
#if CLOSE
     !inside;
#endif
     d_step { if :: change_begun -> version = 1; promised = true :: else -> old_left = T fi; normal = true; left = T }
     if :: epoch >= 2 -> break :: else fi
  od
}

active proctype writer() {
  d_step { VALID -> w_epoch = epoch; w_version = version };                /* token and snapshot */
  batch = RESERVED;
  if :: d_step { !(VALID && epoch == w_epoch) -> if :: batch == RESERVED -> batch = VOID :: else fi; refused = true }; goto out :: else fi;   /* a fragment's check */
  d_step { if :: batch == RESERVED -> batch = PUBLISHED :: else fi };
#if ASYNC
  if :: batch == PUBLISHED -> decide() :: else fi;
#endif
out: skip
}

#if RVIEW
#define RSAME (VALID && epoch == e && version == v)
#else
#define RSAME (VALID && epoch == e)
#endif

active [2] proctype reader() {
  byte e; byte v; bool saw; bool stale;
  do
  :: d_step { VALID -> e = epoch; v = version };
     d_step { saw = (batch == VISIBLE); stale = (v == 0 && COMPLETE) }
     if
     :: d_step { RSAME -> A3(!stale);
          if :: saw -> shown = true; A1(batch == VISIBLE) :: else -> if :: (v == 1 && COMPLETE) -> missed_new = true :: else fi fi }
     :: d_step { !RSAME -> skip }
     fi
  :: break
  od
}
#endif
