"""The public header's codes are those of base/errors.def, name by name and number by number."""

import re

import tree


def check(top):
    table = dict(re.findall(r"^RF_E\((\w+),\s*(\d+)", "\n".join(
        tree.lines(top, "base/errors.def")), re.M))
    header = dict(re.findall(r"^\s*RF_CODE_(\w+) = (\d+)", "\n".join(
        tree.lines(top, "include/ringfence/ringfence.h")), re.M))
    faults = [f"{name}: {table.get(name)} in the table, {header.get(name)} in the header"
              for name in sorted(table.keys() | header.keys())
              if table.get(name) != header.get(name)]
    return faults, len(table)


if __name__ == "__main__":
    tree.report(*check(tree.root()))
