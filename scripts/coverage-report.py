"""Adds up what gcov says of wal, lease, engine, memtable and io, and prints a table.

    coverage-report.py BUILD [--list [MODULE...]]

A line is one that gcov counts; a branch is one way out of a condition, as the compiler laid it out:
`a && b` has four. A header's lines count once, whichever object ran them. Left out are

  - branches never taken in CHECK and DCHECK: the failing side stops the process;
  - branches never taken in what is passed to the log (log_debug to log_error);
  - branches never taken on a line with an atomic_compare_exchange: whether that fails is another
    thread's doing, and cannot be had at will;
  - what the compiler made itself: branches of calls (exceptions), of lines that are no condition
    (none of if, while, for, switch, case, ?, &&, || in them, their statement's other lines
    included), and of a `switch` the way for a value that no case names, where it has no default;
  - what the source says cannot be reached, or not by a test that is to be the same each time:

        /* unreachable: why */      nothing leads there; it is told when a test does come there
        /* race: why */             another thread has to come between; may be reached or not

    on the line itself or alone on the line above. Where the line opens a block, the block as well.
"""

import collections
import json
import os
import re
import subprocess
import sys

MODULES = ["wal", "lease", "engine", "memtable", "io"]
MARK = re.compile(r"/\* (unreachable|race): ")
CHECKS = re.compile(r"\bD?CHECK\(")
EXCHANGES = re.compile(r"\batomic_compare_exchange_\w+\(")
LOGS = re.compile(r"\blog_(debug|info|warn|error|event)\(")
CONDITION = re.compile(r"\b(if|while|for|switch|case|default)\b|\?|&&|\|\|")


class Line:
    def __init__(self):
        self.count = 0
        self.branches = []


def statement_lines(source, start):
    """Numbers of the lines of the statement that begins on line `start`."""
    number, depth = start, 0
    while number <= len(source):
        text = re.sub(r'"(\\.|[^"\\])*"', '""', source[number - 1])
        depth += text.count("(") - text.count(")")
        yield number
        if depth <= 0 and re.search(r"[;{}]\s*(/\*.*)?$", text):
            return
        number += 1


def block_lines(source, start):
    """Those of the block that line `start` opens, by indentation: the layout is clang-format's."""
    indent = len(source[start - 1]) - len(source[start - 1].lstrip())
    for number in range(start + 1, len(source) + 1):
        text = source[number - 1]
        if text.strip() and len(text) - len(text.lstrip()) <= indent:
            return
        yield number


class Source:
    """What the text of a file says of its lines."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.lines = file.read().split("\n")
        self.lenient, self.marked, self.conditions = set(), {}, set()
        for number, text in enumerate(self.lines, 1):
            if CHECKS.search(text) or LOGS.search(text) or EXCHANGES.search(text):
                self.lenient.update(statement_lines(self.lines, number))
            mark = MARK.search(text)
            if mark:
                self.mark(number, mark.group(1))
        for number, text in enumerate(self.lines, 1):
            bare = re.sub(r"/\*.*?\*/", "", re.sub(r'"(\\.|[^"\\])*"', '""', text))
            if CONDITION.search(bare):
                self.conditions.update(statement_lines(self.lines, number))

    def mark(self, number, kind):
        text = self.lines[number - 1]
        while text.lstrip().startswith("/*") or not text.strip() or text.lstrip().startswith("*"):
            number += 1  # a comment of its own: it is about the next line
            if "*/" in text and not text.rstrip().endswith("*/"):
                break
            text = self.lines[number - 1]
        lines = set(statement_lines(self.lines, number)) | {number}
        for line in list(lines):
            if re.search(r"\{\s*(/\*.*\*/)?$", self.lines[line - 1]):
                lines.update(block_lines(self.lines, line))
        for line in lines:
            self.marked[line] = kind


def read_objects(build, top):
    """file -> line number -> Line. Objects of the tests count for the headers that they include."""
    found = collections.defaultdict(lambda: collections.defaultdict(Line))
    data = []
    for folder, _, names in os.walk(build):
        data += [os.path.join(folder, name) for name in names if name.endswith(".gcda")]
    notes = {}
    for folder, _, names in os.walk(os.path.join(build, "CMakeFiles")):
        for name in names:
            if name.endswith(".gcno") and folder.split("/")[-1] in MODULES:
                notes[os.path.join(folder, name)] = True
    for path in notes:  # a file that no test ran has no data, and counts all the same
        if path[:-5] + ".gcda" not in data:
            data.append(path)
    for start in range(0, len(data), 50):
        # It fails for an object that was built anew since, and tells all others.
        out = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities"] +
                             data[start:start + 50], capture_output=True, check=False).stdout
        for text in out.decode().split("\n"):
            if text.strip():
                add_object(json.loads(text), top, found)
    return found


def add_object(parsed, top, found):
    for file in parsed["files"]:
        path = os.path.relpath(os.path.join(parsed["current_working_directory"], file["file"]), top)
        if path.split("/")[0] not in MODULES:
            continue
        for line in file["lines"]:
            to = found[path][line["line_number"]]
            to.count += line["count"]
            counts = [b["count"] for b in line["branches"] if not b["throw"]]
            if len(counts) == len(to.branches):
                to.branches = [a + b for a, b in zip(to.branches, counts)]
            elif len(counts) > len(to.branches):  # an inline function, compiled in another shape
                to.branches = counts


class Sum:
    def __init__(self):
        self.lines = self.lines_hit = self.branches = self.branches_hit = self.marked = 0
        self.missing, self.stale = [], []

    def add(self, other):
        for name in ("lines", "lines_hit", "branches", "branches_hit", "marked"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def judge_line(s, path, number, line, source):
    mark = source.marked.get(number)
    text = source.lines[number - 1].strip()
    missed = sum(1 for count in line.branches if count == 0)
    is_condition = number in source.conditions
    if number in source.lenient or not is_condition:
        missed = 0
    if "switch" in text and missed == 1 and not has_default(source, number):
        missed = 0
    taken = sum(1 for count in line.branches if count != 0) if is_condition else 0
    if mark and (line.count == 0 or missed):
        s.marked += 1
        missed, excused = 0, line.count == 0
        if excused:
            return
    elif mark == "unreachable" and is_condition and line.branches:
        s.stale.append(f"{path}:{number}: is marked as unreachable, and was reached")
    s.lines += 1
    s.lines_hit += line.count != 0
    s.branches += taken + missed
    s.branches_hit += taken
    if line.count == 0:
        s.missing.append(f"{path}:{number}: never: {text}")
    elif missed:
        s.missing.append(f"{path}:{number}: {missed} of {taken + missed} branches never: {text}")


def has_default(source, number):
    return any(re.match(r"\s*default:", source.lines[n - 1])
               for n in block_lines(source.lines, number) if n <= len(source.lines)) or any(
                   re.match(r"\s*default:", text)
                   for text in source.lines[number:number + 80] if text.strip())


def judge_file(path, top, lines):
    source, s = Source(os.path.join(top, path)), Sum()
    for number in sorted(lines):
        if number <= len(source.lines):
            judge_line(s, path, number, lines[number], source)
    return s


def share(hit, of):
    return f"{100 * hit / of:.1f} %" if of else "-"


def row(name, s):
    return (f"| {name} | {s.lines:,} | {share(s.lines_hit, s.lines)} | {s.branches:,} | "
            f"{share(s.branches_hit, s.branches)} | {s.branches - s.branches_hit} | {s.marked} |")


def main(build, wanted):
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = read_objects(os.path.join(top, build), top)
    files = {path: judge_file(path, top, lines) for path, lines in sorted(found.items())}
    head = "| | lines | reached | branches | taken | not taken | marked |\n|---|--:|--:|--:|--:|--:|--:|"
    print(head)
    whole = Sum()
    for module in MODULES:
        s = Sum()
        for path, one in files.items():
            if path.split("/")[0] == module:
                s.add(one)
        print(row(f"`{module}`", s))
        whole.add(s)
    print(row("all", whole) + "\n\n" + head)
    for path, s in files.items():
        print(row(path, s))
    for path, s in files.items():
        if wanted is not None and (not wanted or path.split("/")[0] in wanted):
            print("\n".join(s.missing))
    stale = [text for s in files.values() for text in s.stale]
    print("\n".join(stale))
    return 1 if stale or whole.lines == 0 else 0


if __name__ == "__main__":
    LIST = sys.argv[3:] if "--list" in sys.argv[2:3] else None
    sys.exit(main(sys.argv[1], LIST))
