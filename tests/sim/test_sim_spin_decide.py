"""Part 2 of lease.pml, inside one process, where a batch is decided: the whole table at its head.

Where nothing at all is violated one search asks for all three checks.

ctest: model slow timeout=900
"""

import sys

import spin
from spin import FOUND, SOUND

# variant -> what must be found of checks 1, 2 and 3
TABLE = [
    ("DECIDE=0 CLOSE=0", (FOUND, SOUND, SOUND), "checks before and after it is visible"),
    ("DECIDE=2", (SOUND, FOUND, SOUND), "decided by the epoch alone"),
    ("CLOSE=0", (SOUND, FOUND, SOUND), "promised without closing"),
    ("GATE=0", (SOUND, FOUND, SOUND), "a grant used before its version is promised"),
    ("ASYNC=1 LOCK=0", (FOUND, FOUND, SOUND), "two deciders in one slot"),
    ("RVIEW=0", (SOUND, SOUND, FOUND), "readers that look at the epoch alone"),
]
ROWS = [
    ("", SOUND, "as designed, the lane decides"),
    ("ASYNC=1 LOCK=1", SOUND, "as designed, the writer may decide beside the lane"),
] + [(f"{variant} CHECK={check}", wanted[check - 1], what)
     for variant, wanted, what in TABLE for check in (1, 2, 3)]

if __name__ == "__main__":
    sys.exit(spin.run(2, ROWS))
