"""Each stage of the write path has its probe in the library, and docs/profiling.md lists it."""

import os
import re
import subprocess
import sys

import tree

STAGES = ("validate order split reserve lease copy checksum publish queue submit device decide "
          "visible wake").split()


def main():
    library = os.environ.get("RF_SHARED_LIBRARY")
    if not library:
        print("skipped: this build has no library")
        sys.exit(77)
    if not os.path.exists("/usr/include/" + "sys/sdt.h") and not any(
            os.path.exists(f"/usr/include/{d}/sys/sdt.h") for d in os.listdir("/usr/include")):
        print("skipped: no sys/sdt.h (systemtap-sdt-dev), so there are no probes")
        sys.exit(77)
    notes = subprocess.run(["readelf", "--notes", "--wide", library], check=True,
                           capture_output=True, text=True).stdout
    probes = set(re.findall(r"Provider: ringfence\s+Name: (\w+)", notes))
    semaphores = set(re.findall(r"Semaphore: (0x[0-9a-f]+)", notes))
    page = "\n".join(tree.lines(tree.root(), "docs/profiling.md"))
    used = set(re.findall(r"\$L:ringfence:(\w+)", page))
    listed = set(re.findall(r"^\| `(\w+)` \| [^|]+ \| `bpftrace -e .*\$L:ringfence:\1 ", page, re.M))
    faults = [f"no probe {s}" for s in STAGES if s not in probes]
    faults += [f"docs/profiling.md has no line for {p}" for p in sorted(probes - listed)]
    faults += [f"docs/profiling.md names {p}, which is not there"
               for p in sorted((listed | used) - probes)]
    if semaphores - {"0x0000000000000000"}:
        faults.append("a probe has a semaphore: its arguments cost a branch")
    tree.report(faults, len(probes))


if __name__ == "__main__":
    main()
