"""The mutants: small faults that are put into a copy of the tree, to see that a test finds each.

They stand in the .txt files beside this one. A record is

    == name-of-the-mutant
    fault: what is wrong with it, in a line
    found by: crash.test_crash_lane
    -- wal/lane_write.c
    lines as they stand in that file, once
    ++
    the lines that take their place

with as many pairs of -- and ++ as the fault needs. A line that begins with # before the first record
of a file is a comment.
"""

import glob
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
FUNCTION = re.compile(r"^[A-Za-z_][^;]*?(\w+)\(")


class Bad(Exception):
    """A record that can't be read, or does not fit the tree."""


class Mutant:
    def __init__(self, source, name):
        self.source, self.name = source, name
        self.fault = self.found_by = None
        self.edits = []  # [path, old lines, new lines]

    def files(self):
        return sorted({path for path, _, _ in self.edits})

    def apply(self, read):
        """{path: text with the fault}; read(path) gives the text as it is."""
        texts = {path: read(path) for path in self.files()}
        for path, old, new in self.edits:
            texts[path] = replace_once(texts[path], old, new, f"{self.name}: {path}")
        return texts

    def places(self, read):
        """`file`, function of each edit, in order, each once."""
        found = []
        for path, old, _ in self.edits:
            text = read(path)
            place = f"`{path}`, {function_at(text, text.find(block(old)))}"
            if place not in found:
                found.append(place)
        return "; ".join(found)


def block(lines):
    return "\n" + "\n".join(lines) + "\n"


def replace_once(text, old, new, what):
    count = text.count(block(old))
    if count != 1:
        raise Bad(f"{what}: the lines to be replaced stand there {count} times, not once")
    return text.replace(block(old), block(new) if new else "\n")


def function_at(text, at):
    lines = text[:at + 1].split("\n") + text[at + 1:].split("\n")[:1]
    for line in reversed(lines):
        match = FUNCTION.match(line)
        if match:
            return f"{match.group(1)}()"
    return "at its head"


def parse(path):
    mutants, mutant, lines = [], None, None
    with open(path, encoding="utf-8") as f:
        text = f.read().split("\n")
    if text[-1] == "":
        text.pop()
    for number, line in enumerate(text, 1):
        where = f"{os.path.basename(path)}:{number}"
        if line.startswith("== "):
            mutant, lines = Mutant(where, line[3:]), None
            mutants.append(mutant)
        elif mutant is None:
            if line and not line.startswith("#"):
                raise Bad(f"{where}: not in a record")
        elif line.startswith("-- "):
            lines = []
            mutant.edits.append([line[3:], lines, None])
        elif line == "++":
            if not mutant.edits or mutant.edits[-1][2] is not None:
                raise Bad(f"{where}: ++ without --")
            lines = []
            mutant.edits[-1][2] = lines
        elif lines is not None:
            lines.append(line)
        elif line.startswith("fault: "):
            mutant.fault = line[7:]
        elif line.startswith("found by: "):
            mutant.found_by = line[10:]
        elif line:
            raise Bad(f"{where}: neither fault: nor found by: nor --")
    for mutant in mutants:
        for edit in mutant.edits:  # an empty line parts records
            while edit[2] and edit[2][-1] == "":
                edit[2].pop()
    return mutants


def load():
    mutants = []
    for path in sorted(glob.glob(os.path.join(HERE, "*.txt"))):
        mutants += parse(path)
    return mutants


def test_source(name):
    """Where the ctest of this name has its source, from the tree's root."""
    parts = name.split(".")
    endings = (".c", ".py", ".sh")
    return [os.path.join("tests", *parts) + ending for ending in endings]


def faults(top, mutants):
    """What is wrong with the records, as lines; [] when they all fit the tree at top."""
    found, names = [], set()

    def read(path):
        with open(os.path.join(top, path), encoding="utf-8") as f:
            return f.read()

    for m in mutants:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", m.name):
            found.append(f"{m.source}: '{m.name}' is no name for a mutant")
        if m.name in names:
            found.append(f"{m.source}: {m.name} stands here for the second time")
        names.add(m.name)
        if not m.fault or not m.found_by or not m.edits or any(e[2] is None for e in m.edits):
            found.append(f"{m.source}: {m.name} lacks fault, found by, or a pair of -- and ++")
            continue
        if not any(os.path.exists(os.path.join(top, s)) for s in test_source(m.found_by)):
            found.append(f"{m.source}: {m.name}: there is no test {m.found_by}")
        for path, old, new in m.edits:
            if old == new:
                found.append(f"{m.source}: {m.name} changes nothing in {path}")
        try:
            m.apply(read)
        except (Bad, OSError) as error:
            found.append(f"{m.source}: {error}")
    return found


def table(top, mutants):
    """The rows of the table of kills, for the document."""
    def read(path):
        with open(os.path.join(top, path), encoding="utf-8") as f:
            return f.read()

    rows = ["| mutant | fault | place | found by |", "|---|---|---|---|"]
    rows += [f"| `{m.name}` | {m.fault} | {m.places(read)} | `{m.found_by}` |" for m in mutants]
    return rows
