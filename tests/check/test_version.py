"""The version is the same in the build, in the public header and in the change log."""

import re

import tree


def check(top):
    build = re.search(r"project\(ringfence VERSION ([\d.]+)", "\n".join(
        tree.lines(top, "CMakeLists.txt"))).group(1)
    header = "\n".join(tree.lines(top, "include/ringfence/ringfence.h"))
    parts = [re.search(rf"#define RF_VERSION_{part} (\d+)", header).group(1)
             for part in ("MAJOR", "MINOR", "PATCH")]
    faults = []
    if ".".join(parts) != build:
        faults.append(f"CMakeLists.txt says {build}, the header {'.'.join(parts)}")
    heads = re.findall(r"^## \[?(Unreleased|[\d.]+)", "\n".join(tree.lines(top, "CHANGELOG.md")),
                       re.M)
    if not heads or heads[0] not in ("Unreleased", build):
        faults.append(f"CHANGELOG.md begins with neither Unreleased nor {build}")
    return faults, 3


if __name__ == "__main__":
    tree.report(*check(tree.root()))
