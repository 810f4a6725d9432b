"""The rows of bench/rows.def: ids differ, and what a shortfall is explained by is there to be read."""

import re

import tree

ROW = re.compile(r'^ROW\((\w+),\s*"([^"]+)"', flags=re.M)


def anchors(lines):
    for line in lines:
        if line.startswith("#"):
            words = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            yield words.replace(" ", "-")


def check(top):
    text = "\n".join(tree.lines(top, "bench/rows.def"))
    faults = []
    ids = [match.group(2) for match in ROW.finditer(text)]
    faults += [f"bench/rows.def: {i} stands twice" for i in set(ids) if ids.count(i) > 1]
    if not ids:
        faults.append("bench/rows.def: no rows found")
    there = set(anchors(tree.lines(top, "docs/performance.md")))
    # The last argument of a row.
    for anchor in re.findall(r',\s*"([\w\-]+)"\)\n', text + "\n"):
        if anchor not in there:
            faults.append(f"bench/rows.def: docs/performance.md has no section #{anchor}")
    return faults, 2


if __name__ == "__main__":
    tree.report(*check(tree.root()))
