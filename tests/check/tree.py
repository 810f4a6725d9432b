"""The source tree, as the checks see it, and how they report."""

import os
import sys

MODULES = ("api base cli client consensus engine io lease memtable plane rpc schema server tsfile "
           "wal").split()
FOLDERS = MODULES + ["bench", "examples", "include", "scripts", "tests", "cmake", "docs", ".ci"]


def root():
    given = os.environ.get("RF_SOURCE_DIR")
    return given or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files(top, endings=None):
    """Paths below top, relative to it, of the folders that are ours, and the files at the top."""
    found = [name for name in os.listdir(top) if os.path.isfile(os.path.join(top, name))]
    for folder in FOLDERS:
        for path, folders, names in os.walk(os.path.join(top, folder)):
            folders[:] = [f for f in folders if f != "__pycache__"]
            found += [os.path.relpath(os.path.join(path, name), top) for name in names]
    return sorted(f for f in found if endings is None or f.endswith(endings))


def lines(top, path):
    with open(os.path.join(top, path), encoding="utf-8", errors="replace") as f:
        return f.read().split("\n")


def report(faults, looked_at):
    """Ends the check: prints each fault, and fails if there is one, or if nothing was looked at."""
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults in {looked_at} files")
    sys.exit(1 if faults or looked_at == 0 else 0)
