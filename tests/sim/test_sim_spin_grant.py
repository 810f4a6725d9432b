"""Part 1 of lease.pml, between grantor and holders: sound as designed where the search stays under
ten million states, and each rule taken away is found. docs/testing.md has the larger ones.

ctest: model slow timeout=900
"""

import sys

import spin
from spin import FOUND, SOUND

ROWS = [
    ("", SOUND, "one boot, two changes"),
    ("V=1", SOUND, "one boot, one change"),
    ("DRIFT=2", SOUND, "a clock that loses every third tick"),
    ("SLOTS=2 V=1", SOUND, "two messages in flight each way"),
    ("SLOTS=2", SOUND, "two messages in flight each way, two changes"),
    ("SLOTS=2 V=1 DRIFT=2", SOUND, "the same with drift, one change"),
    ("LEADERS=2", SOUND, "a change of leader, two changes"),
    ("T=1 M=0 BOOTS=2 LEADERS=2 V=1", SOUND, "two boots and a change of leader"),
    ("BOOTS=2 V=1", SOUND, "two boots"),
    ("BREAK=11", SOUND, "an older term is taken: defence in depth"),
    ("BREAK=21", SOUND, "below the floor and not fenced: defence in depth"),
    ("REACH=1", FOUND, "reached: complete by promise"),
    ("REACH=2", FOUND, "reached: complete by expiry"),
    ("REACH=3 LEADERS=2 V=1", FOUND, "reached: complete under a second leader"),
    ("BREAK=1", FOUND, "renew at receipt"),
    ("BREAK=2 SLOTS=2", FOUND, "an older pull's answer is let in after a promise"),
    ("BREAK=3 SLOTS=2", FOUND, "grants hold for any version"),
    ("BREAK=4 BOOTS=2 V=1", FOUND, "promises count by node"),
    ("BREAK=5 LEADERS=2 V=1 S=3", FOUND, "a new leader does not wait for the old one"),
    ("BREAK=6 LEADERS=2 V=1 SLOTS=2", FOUND, "nor for its leases"),
    ("BREAK=7 SLOTS=2", FOUND, "count from the last answer plus a margin"),
    ("BREAK=9 BOOTS=2 V=1", FOUND, "a removed node is not waited for"),
    ("BREAK=12 LEADERS=2 V=1 SLOTS=2", FOUND, "the old leader has no end"),
    ("BREAK=14 T=1 M=0 BOOTS=2 LEADERS=2 V=1", FOUND, "granted before it is registered"),
    ("BREAK=20", FOUND, "a clock that stands still: outside what is assumed"),
    ("M=0 DRIFT=2", FOUND, "clocks that differ, and no margin"),
]

if __name__ == "__main__":
    sys.exit(spin.run(1, ROWS))
