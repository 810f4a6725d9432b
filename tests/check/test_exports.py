"""Every symbol that the libraries show begins with rf_, stands in the public header, and is of the
version node RINGFENCE_1; every call of the header is there."""

import os
import re
import subprocess
import sys

import tree

HEADER = "include/ringfence/ringfence.h"


def declared(text):
    """The names of the calls in the header's text."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    return set(re.findall(r"\bRF_API(?:_CHECK)?\b[^;(]*?\b(\w+)\s*\(", text))


def symbols(*arguments):
    out = subprocess.run(["nm", "--format=posix", "--defined-only", *arguments], check=True,
                         capture_output=True, text=True).stdout
    return [fields[0] for fields in (line.split() for line in out.split("\n")) if len(fields) >= 3]


def faults_of(calls, shared, static):
    """calls: of the header. shared: names with their version. static: plain names."""
    faults = []
    found = set()
    for symbol in shared:
        name, _, version = symbol.partition("@")
        if symbol == "RINGFENCE_1":
            continue
        found.add(name)
        if not name.startswith("rf_"):
            faults.append(f"shared: {name} does not begin with rf_")
        if version.lstrip("@") != "RINGFENCE_1":
            faults.append(f"shared: {symbol} is not of RINGFENCE_1")
    for kind, names in (("shared", found), ("static", set(static))):
        faults += [f"{kind}: {name} is shown, but not declared in the header"
                   for name in sorted(names - calls)]
        faults += [f"{kind}: {name} is declared, but not there" for name in sorted(calls - names)]
    return faults


def main():
    header = "\n".join(tree.lines(tree.root(), HEADER))
    if "RF_SHARED_LIBRARY" not in os.environ:
        print("skipped: this build has no library")
        sys.exit(77)
    shared = symbols("--dynamic", "--with-symbol-versions", os.environ["RF_SHARED_LIBRARY"])
    # A sanitizer's own marks are not ours.
    static = [s for s in symbols("--extern-only", os.environ["RF_STATIC_LIBRARY"])
              if not s.startswith(("__odr_asan", "__asan", "__ubsan", "__tsan"))]
    shared = [s for s in shared if not s.startswith(("__odr_asan", "__asan", "__ubsan", "__tsan"))]
    tree.report(faults_of(declared(header), shared, static), 2)


if __name__ == "__main__":
    main()
