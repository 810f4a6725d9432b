"""Runs rows of commit_model.py's table, two at a time, and compares each with what it must be."""

import multiprocessing
import sys
import time

import commit_model


def title(changed):
    return " ".join(f"{k}={v}" for k, v in changed.items()) or "as designed, SYNC, crash"


def run(rows):
    began = time.monotonic()
    wrong = 0
    with multiprocessing.Pool(2, maxtasksperchild=1) as pool:
        for changed, wanted, bad, states, images, trace, took in pool.imap(commit_model.job, rows,
                                                                            chunksize=1):
            ok = (bad is not None) == (wanted == "found") and bad != "LIMIT"
            wrong += not ok
            print(f"{'ok   ' if ok else 'WRONG'} {title(changed):44} {states:8} states "
                  f"{images:8} images {took:5.1f} s  {bad or 'no violation'}", flush=True)
            if not ok:
                print("\n".join(f"      {step}" for step in trace))
    print(f"{len(rows)} rows, {wrong} wrong, {time.monotonic() - began:.0f} s")
    return 1 if wrong or not rows else 0


def main(rows):
    sys.exit(run(rows))
