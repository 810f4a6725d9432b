"""Runs Spin on lease.pml, row by row, and compares what it finds with what it must find."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODEL = pathlib.Path(__file__).with_name("lease.pml")
SOUND, FOUND = "no violation", "violation found"


class Broken(Exception):
    """Spin or the compiler did not do its work: that is no verdict."""


def call(command, where):
    done = subprocess.run(command, cwd=where, capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def search(part, defines, compiler, where):
    """One exhaustive search: (verdict, states stored)."""
    flags = [f"-D{d}" for d in defines.split()]
    call(["spin", f"-DPART={part}", *flags, "-a", str(MODEL)], where)
    if part == 1:
        build = ["-DCOLLAPSE", "-DNOREDUCE", "-DVECTORSZ=2048", "-DMEMLIM=3000"]
        depth = "-m3000000"
    else:
        build, depth = [], "-m100000"
    call([compiler, "-O2", "-w", "-DSAFETY", *build, "pan.c", "-o", "pan"], where)
    out = subprocess.run(["./pan", "-E", depth, "-n"], cwd=where, capture_output=True, text=True)
    states = re.search(r"(\d+) states, stored", out.stdout)
    if states is None:
        raise Broken(f"no result:\n{out.stdout}{out.stderr}")
    if "assertion violated" in out.stdout:
        return FOUND, int(states.group(1))
    # A search that ran out of depth or memory has not seen everything, and proves nothing.
    for trouble in ("max search depth too small", "Search not completed", "out of memory",
                    "memory limit"):
        if trouble in out.stdout + out.stderr:
            raise Broken(f"{trouble}:\n{out.stdout}{out.stderr}")
    return SOUND, int(states.group(1))


def run(part, rows):
    """rows: (defines, verdict wanted, what the row is). Returns an exit code."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if shutil.which("spin") is None or compiler is None:
        print("this test needs spin and a C compiler; scripts/install-deps test installs them")
        return 1
    wrong = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ringfence-spin-") as where:
        for defines, wanted, what in rows:
            start = time.monotonic()
            try:
                verdict, states = search(part, defines, compiler, where)
            except Broken as trouble:
                print(f"BROKEN {defines or '(as designed)'}: {trouble}")
                return 1
            took = time.monotonic() - start
            word = "ok   " if verdict == wanted else "WRONG"
            wrong += verdict != wanted
            print(f"{word} {defines or '(as designed)':44} {states:9} states {took:5.1f} s  "
                  f"{verdict}; {what}", flush=True)
    print(f"{len(rows)} rows, {wrong} wrong, {time.monotonic() - began:.0f} s")
    return 1 if wrong or not rows else 0
