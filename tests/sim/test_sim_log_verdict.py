"""The model of replay's verdict: the rule that the code has refuses no plain crash and passes over
no damage below a mark, and each of the other rules does one or the other.

ctest: model
"""

import pathlib
import re
import subprocess
import sys

MODEL = pathlib.Path(__file__).with_name("log_verdict.py")


def main():
    out = subprocess.run([sys.executable, str(MODEL)], check=True, capture_output=True, text=True)
    print(out.stdout, end="")
    faults = []
    rows = re.findall(r"^(\d) (\w+) states (\d+) refused (\d+) \| damaged (\d+) silently cut (\d+) "
                      r"of them unmarked (\d+)$", out.stdout, re.M)
    if len(rows) != 9:
        faults.append(f"{len(rows)} rows instead of 9")
    for depth, rule, states, refused, damaged, silent, unmarked in rows:
        sound = int(refused) == 0 and silent == unmarked
        # One write in flight leaves no hole, so that there the first of the wrong rules holds.
        wanted = rule == "mark" or (rule == "design" and depth == "1")
        if sound != wanted or int(states) == 0 or int(damaged) == 0:
            faults.append(f"depth {depth}, rule {rule}: sound={sound}, expected {wanted}")
    lives = dict((how, (int(n), int(ghosts), int(lost))) for how, n, ghosts, lost in re.findall(
        r"^([a-z ]+) states (\d+) ghosts (\d+) lost or refused (\d+)$", out.stdout, re.M))
    if lives.get("cut record", (0, 1, 1))[1:] != (0, 0):
        faults.append("a cut record lets something come back, or loses something")
    if lives.get("same salt", (0, 0, 0))[1] == 0:
        faults.append("one salt for both lives is not found")
    print("\n".join(faults) or "as expected")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
