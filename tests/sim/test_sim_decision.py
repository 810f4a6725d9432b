"""The model of one decision across the end of a lease: which of its eight variants are sound.

ctest: model
"""

import pathlib
import subprocess
import sys

MODEL = pathlib.Path(__file__).with_name("decision.py")

# checks, reader, handshake -> states, what is wrong
WANTED = [
    "2 valid now - 468 ['dirty read']",
    "2 valid now handshake 342 ['dirty read']",
    "2 same epoch - 468 ['dirty read']",
    "2 same epoch handshake 342 ['dirty read']",
    "1 valid now - 320 ['late appearance']",
    "1 valid now handshake 242 no violation",
    "1 same epoch - 320 ['late appearance']",
    "1 same epoch handshake 242 no violation",
]


def main():
    out = subprocess.run([sys.executable, str(MODEL)], check=True, capture_output=True, text=True)
    found = out.stdout.splitlines()
    print(out.stdout, end="")
    for want, have in zip(WANTED, found):
        if want != have:
            print(f"expected: {want}")
    return 0 if found == WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
