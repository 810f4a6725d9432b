"""What has no place in a finished tree: notes to oneself, paths of one machine, unsafe calls."""

import re

import tree

# Written in pieces, so that this file does not find itself.
NOTES = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK|NEEDS" r"WORK)\b")
MACHINE = re.compile(r"(?<![\w./$}<])/(home|work|Users)/\w")
BLANKS = re.compile(r"[ \t]+$")

# Calls that the library and the command do without, and what they use instead.
CALLS = [
    (r"(strcpy|strcat|sprintf|vsprintf|gets|strtok|tmpnam|mktemp)", "no bound, or not reentrant"),
    (r"(atoi|atol|atoll|atof)", "no error: strtoll and its like"),
    (r"(rand|srand|random)", "hidden state: take a seed"),
    (r"(localtime|gmtime|asctime|ctime|strerror)", "static storage: the _r form, or err_text"),
    (r"(assert)", "CHECK or DCHECK"),
    (r"(system|popen)", "a shell"),
]
# Memory goes through base/alloc.h in the library. Not in the fault double: alloc_fail_at has to
# count the calls of what is tested.
MEMORY_FREE = ("base/alloc", "io/fault")
MEMORY = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|"
                    r"posix_memalign)\s*\(")
STRINGS = re.compile(r'"(\\.|[^"\\])*"')


def code_of(lines):
    """The lines without comments and strings, blank where they were."""
    text = "\n".join(lines)
    text = STRINGS.sub('""', text)
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text).split("\n")


def faults_of(path, lines):
    for number, line in enumerate(lines, 1):
        for pattern, what in ((NOTES, "a note to oneself"), (MACHINE, "a path of one machine"),
                              (BLANKS, "blanks at the end of the line")):
            if pattern.search(line) and not (pattern is BLANKS and path.endswith(".md")):
                yield number, what
    module = path.split("/")[0]
    if module not in tree.MODULES or not path.endswith((".c", ".h")):
        return
    for number, line in enumerate(code_of(lines), 1):
        for names, why in CALLS:
            match = re.search(r"(?<![\w.>])" + names + r"\s*\(", line)
            if match:
                yield number, f"{match.group(1)}(): {why}"
        match = MEMORY.search(line)
        if match and not path.startswith(MEMORY_FREE):
            yield number, f"{match.group(1)}(): base/alloc.h is the way to memory"


def check(top):
    paths = [p for p in tree.files(top) if not p.startswith("tests/check/") and
             p.endswith((".c", ".h", ".def", ".cpp", ".cmake", ".txt", ".py", ".sh", ".md",
                         ".json")) or p.startswith(("scripts/", ".ci/"))]
    paths = [p for p in paths if "/data/" not in p and "/corpus/" not in p and "/golden/" not in p]
    faults = [f"{path}:{number}: {what}"
              for path in paths for number, what in faults_of(path, tree.lines(top, path))]
    return faults, len(paths)


if __name__ == "__main__":
    tree.report(*check(tree.root()))
