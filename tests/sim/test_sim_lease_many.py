# ctest: slow timeout=1500
"""100,000 seeds of the lease's steps in the simulator, one process a core. A sanitizer's build takes
a tenth of them."""

import os
import re
import subprocess
import sys

BINARIES = os.environ.get("RF_BINARY_DIR") or sys.exit("RF_BINARY_DIR must name the build")
FIRST = 1_000_000  # test_sim_lease runs the seeds from 1 on


def is_sanitized():
    with open(os.path.join(BINARIES, "CMakeCache.txt"), encoding="utf-8") as f:
        return re.search(r"^RF_SANITIZE:\w+=.", f.read(), re.M) is not None


def main():
    seeds = 10_000 if is_sanitized() else 100_000
    parts = os.cpu_count() or 1
    each = -(-seeds // parts)
    command = [os.path.join(BINARIES, "bin", "test_sim_lease"), "*as_they_are*"]
    running = [subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={**os.environ, "RF_SIM_SEEDS": str(each),
                                     "RF_SEED": str(FIRST + part * each)})
               for part in range(parts)]
    events, failed = 0, False
    for process in running:
        out = process.communicate()[0]
        found = re.search(r"(\d+) events, \d+ decided", out)
        if process.returncode != 0 or found is None:
            print(out)
            failed = True
        else:
            events += int(found[1])
    print(f"{parts * each} seeds from {FIRST} on, {events} events, {'FAILED' if failed else 'no fault'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
