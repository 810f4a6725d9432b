"""Each mutant of tests/mutants/ fits the tree as it is today, names a test that is there, and stands in
docs/mutations.md. (That the tests find them is what scripts/mutants tries, which takes long.)"""

import os
import sys

import tree

sys.path.insert(0, os.path.join(tree.root(), "tests", "mutants"))
import catalogue  # noqa: E402

DOCUMENT = "docs/mutations.md"
AT_LEAST = 40


def check(top):
    try:
        mutants = catalogue.load()
    except catalogue.Bad as error:
        return [str(error)], 0
    faults = catalogue.faults(top, mutants)
    if len(mutants) < AT_LEAST:
        faults.append(f"{len(mutants)} mutants: expected at least {AT_LEAST}")
    if not faults:
        rows = catalogue.table(top, mutants)
        told = set(tree.lines(top, DOCUMENT))
        faults = [f"{DOCUMENT}: missing: {row}" for row in rows if row not in told]
        faults += [f"{DOCUMENT}: no such mutant: {row}" for row in sorted(told)
                   if row.startswith("| `") and row not in rows]
    return faults, len(mutants)


if __name__ == "__main__":
    tree.report(*check(tree.root()))
