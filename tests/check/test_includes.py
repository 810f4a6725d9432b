"""Who may include whom, and where an outside library may show."""

import re

import tree

# A module may include itself and these. None: every module but cli and client.
MAY = {
    "base": [],
    "io": ["base"],
    "memtable": ["base"],
    "lease": ["base"],
    "schema": ["base"],
    "rpc": ["base"],
    "tsfile": ["base", "io"],
    "wal": ["base", "io"],
    # The public structs are the engine's own words for tablets, scans and errors.
    "engine": ["base", "include", "io", "memtable", "lease", "schema", "tsfile", "wal"],
    "plane": ["base", "lease", "schema"],
    "consensus": ["base", "lease", "schema"],
    "api": None,
    "server": None,
    "client": ["base", "rpc", "include"],
    "cli": ["base", "include"],
    "examples": ["include"],
    "include": ["include"],
}

# Outside headers that one place alone may name.
ONLY_IN = [
    (r"(liburing|linux/io_uring)", r"io/uring[a-z_]*\.c$"),
    (r"xxh", r"base/hash[a-z0-9_]*\.c$"),
    (r"jemalloc", r"base/alloc[a-z_]*\.c$"),
    (r"sqlite3", r"plane/catalog[a-z_]*\.[ch]$"),
    (r"zlib", r"cli/source\.c$"),
    (r"sys/sdt", r"base/probe\.h$"),
]

# What the installed header may include: the C library's own.
LIBC = {"stdbool.h", "stddef.h", "stdint.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def owner(header, path):
    """The module of a header named in path, or None when it is not one of ours."""
    if header.startswith("ringfence/"):
        return "include"
    first = header.split("/")[0]
    if "/" in header and first in tree.MODULES + ["tests", "bench"]:
        return first
    if "/" not in header and header.endswith((".h", ".def", ".c")):
        return path.split("/")[0]
    return None


def fault_of(path, quote, header):
    """What is wrong with this line, or None."""
    module = path.split("/")[0]
    in_tests = module in ("tests", "bench")
    if quote == "<" and not header.startswith("ringfence/"):
        if module == "include" and header not in LIBC:
            return f"the installed header includes <{header}>"
        for pattern, place in ONLY_IN:
            if re.match(pattern, header) and not in_tests and not re.search(place, path):
                return f"<{header}> belongs to {place} alone"
        return None
    target = owner(header, path)
    if path.startswith("tests/integration/") or path.startswith("tests/install/"):
        return None if target in ("include", "tests") else f"sees {header}: include/ringfence only"
    if in_tests or target is None:
        return None
    if target != module:
        if header.endswith("_impl.h"):
            return f"{header} is the inside of {target}"
        allowed = MAY[module]
        if allowed is None:
            allowed = [m for m in tree.MODULES if m not in ("cli", "client")] + ["include"]
        if target not in allowed:
            return f"{module} may not include {target}: {header}"
    return None


def check(top):
    faults = []
    paths = tree.files(top, (".c", ".h", ".cpp"))
    for path in paths:
        if "/" not in path:
            continue
        for number, line in enumerate(tree.lines(top, path), 1):
            match = INCLUDE.match(line)
            fault = fault_of(path, *match.groups()) if match else None
            if fault:
                faults.append(f"{path}:{number}: {fault}")
    return faults, len(paths)


if __name__ == "__main__":
    tree.report(*check(tree.root()))
