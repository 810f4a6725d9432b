# ctest: timeout=60
"""Instructions per point of the write path, counted by callgrind and held against a stored figure.

Seconds on a shared machine say little; instructions say the same on every run. Counted is what runs
inside engine_begin on the writer's thread: from the check of the tablet to its publishing. Two runs
of different length are subtracted, so that the first write, which makes table and columns, falls out.

Not counted: the lane's thread, the kernel, and what the caches do. The hash runs in its portable form
(SSE2 on x86-64), since valgrind has no AVX-512 and not every machine has AVX2; the C library's copy
is pinned to one form for the same reason.

The figures belong to one compiler and one kind of build. Elsewhere the test is skipped, and says so.
After a change that is meant: python3 tests/perf/test_instructions.py --store
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STORED = os.path.join(HERE, "instructions.json")
TOLERANCE = 0.05
# shape: (points a batch, batches of the short run, of the long run)
SHAPES = {"main": (10000, 10, 60), "small": (10, 100, 1100), "fleet": (10000, 4, 24)}
# Forms of memcpy and its like that every x86-64 has.
TUNABLES = ("glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX2,-AVX_Fast_Unaligned_Load,"
            "-AVX2_Usable,-ERMS,-FSRM,-Prefer_No_VZEROUPPER")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def build_of(binary_dir):
    """The compiler and the kind of build, as CMake's cache has them."""
    with open(os.path.join(binary_dir, "CMakeCache.txt"), encoding="utf-8") as f:
        cache = dict(re.findall(r"^(\w+):\w+=(.*)$", f.read(), flags=re.M))
    version = subprocess.run([cache["CMAKE_C_COMPILER"], "--version"], capture_output=True,
                             text=True, check=True).stdout.split("\n")[0]
    extra = cache.get("RF_SANITIZE", "") + ("coverage" if cache.get("RF_COVERAGE") == "ON" else "")
    return {"compiler": version, "build": cache.get("CMAKE_BUILD_TYPE", "") + extra,
            "machine": os.uname().machine}


def count(program, shape, batches):
    with tempfile.TemporaryDirectory(prefix="rf-perf-") as folder:
        out = os.path.join(folder, "callgrind.out")
        command = ["valgrind", "--tool=callgrind", "--toggle-collect=engine_begin",
                   f"--callgrind-out-file={out}", "--quiet", program,
                   os.path.join(folder, "data"), shape, str(batches)]
        run = subprocess.run(command, capture_output=True, text=True,
                             env={**os.environ, "GLIBC_TUNABLES": TUNABLES})
        if run.returncode != 0:
            print(run.stdout + run.stderr)
            sys.exit(f"{' '.join(command)}: exit code {run.returncode}")
        with open(out, encoding="utf-8") as f:
            totals = re.search(r"^(?:summary|totals): (\d+)", f.read(), flags=re.M)
        if totals is None or totals.group(1) == "0":
            sys.exit("callgrind counted nothing inside engine_begin: was it renamed or inlined?")
        return int(totals.group(1))


def per_point(program, shape):
    points, short, long = SHAPES[shape]
    return (count(program, shape, long) - count(program, shape, short)) / points / (long - short)


def main():
    if shutil.which("valgrind") is None:
        skip("valgrind is not installed (scripts/install-deps test brings it)")
    binary_dir = os.environ.get("RF_BINARY_DIR") or os.path.join(HERE, "../../build/release")
    build = build_of(binary_dir)
    storing = "--store" in sys.argv
    stored = {}
    if not storing:
        with open(STORED, encoding="utf-8") as f:
            stored = json.load(f)
        if build != stored["of"]:
            skip(f"the stored figures are of {stored['of']}, this build is {build}")
    program = os.path.join(binary_dir, "bin", "hot_path")
    found = {shape: round(per_point(program, shape), 3) for shape in SHAPES}
    if storing:
        with open(STORED, "w", encoding="utf-8") as f:
            json.dump({"of": build, "instructions_per_point": found}, f, indent=2)
            f.write("\n")
        print(found)
        return
    worse = False
    for shape, now in found.items():
        was = stored["instructions_per_point"][shape]
        change = now / was - 1
        word = ""
        if change > TOLERANCE:
            worse, word = True, ": more than the tolerance"
        elif change < -TOLERANCE:
            word = ": better; store the new figure (--store)"
        print(f"{shape}: {now} instructions a point, stored {was}, {change:+.1%}{word}")
    print("hash: the portable form")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
