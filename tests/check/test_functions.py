"""Functions fit a screen, or say at their head why they read better whole.

The layout is clang-format's: a function's body opens with "{" alone in the first column and ends
with "}" there."""

import tree

LINES_MAX = 70
EXCUSE = "Longer than a screen:"


def head(lines, opening):
    """The lines of the signature and of the comment right above it."""
    first = opening
    while first > 0 and lines[first - 1] not in ("", "}") and not lines[first - 1].startswith("#"):
        first -= 1
    return first, lines[first:opening]


def check(top):
    faults = []
    paths = [p for p in tree.files(top, ".c") if p.split("/")[0] in tree.MODULES + ["examples"]]
    for path in paths:
        lines = tree.lines(top, path)
        opening = None
        for index, line in enumerate(lines):
            if line == "{":
                opening = index
            elif line == "}" and opening is not None:
                length = index - opening - 1
                first, above = head(lines, opening)
                if length > LINES_MAX and EXCUSE not in " ".join(above):
                    faults.append(f"{path}:{first + 1}: {length} lines, more than {LINES_MAX}, "
                                  f'without "{EXCUSE} ..." at its head')
                opening = None
    return faults, len(paths)


if __name__ == "__main__":
    tree.report(*check(tree.root()))
