"""scripts/torture: on programs that stand in for the tests."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import tree

SCRIPT = os.path.join(tree.root(), "scripts", "torture")


class Torture(unittest.TestCase):
    def setUp(self):
        top = tempfile.TemporaryDirectory()
        self.addCleanup(top.cleanup)
        self.top = top.name
        os.mkdir(os.path.join(self.top, "bin"))
        for name in ("test_crash_engine", "test_crash_lane", "test_plane_crash",
                     "test_crash_wal_format"):
            self.stand_in(name, 'echo "1,200 crash images, 3 batches fenced"')
        self.stand_in("test_sim_lease", 'echo "seeds 1..9: 500 events, 7 decided"')

    def stand_in(self, name, script):
        path = os.path.join(self.top, "bin", name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o755)

    def command(self, *words):
        return [sys.executable, "-B", SCRIPT, "--programs", self.top, *words]

    def torture(self, *words, code=0):
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def state_of(self, pid):
        """Its letter in /proc; Z while nobody has asked for its exit code, X when it is gone."""
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                return f.read().rpartition(")")[2].split()[0]
        except OSError:
            return "X"

    def test_a_short_run_ends_with_the_counts(self):
        out, _ = self.torture("0", "--only", "crash,simulator", "--seed", "70")
        lines = out.splitlines()
        self.assertRegex(lines[0], r"^ok crash: test_\w+, RF_SEED=70, \d+ s$")
        self.assertRegex(lines[1], r"^ok simulator: test_sim_lease, RF_SEED=71, \d+ s$")
        self.assertRegex(lines[2], r"^torture: \d+\.\d minutes, 2 rounds, 1,200 images, "
                                   r"500 simulated events, 0 failures$")

    def test_it_runs_for_as_long_as_told_and_each_round_has_a_seed_of_its_own(self):
        out, _ = self.torture("0.02", "--only", "crash")
        seeds = re.findall(r"RF_SEED=(\d+)", out)
        self.assertGreater(len(seeds), 4)
        self.assertEqual(len(seeds), len(set(seeds)))
        self.assertEqual({"test_crash_engine", "test_crash_lane", "test_plane_crash",
                          "test_crash_wal_format"}, set(re.findall(r"crash: (\w+)", out)))

    def test_a_failure_is_kept_with_its_seed_and_the_others_go_on(self):
        self.stand_in("test_crash_lane", 'echo "lost: $RF_SEED"; echo why >&2; exit 3')
        out, _ = self.torture("0.02", "--only", "crash", code=1)
        failed = re.search(r"^FAILED crash: test_crash_lane, RF_SEED=(\d+), exit code 3, \d+ s: (.*)$",
                           out, re.M)
        self.assertIsNotNone(failed, out)
        found = os.path.dirname(os.path.join(tree.root(), os.path.relpath(failed[2])))
        self.addCleanup(subprocess.run, ["rm", "-rf", found], check=True)
        with open(os.path.join(failed[2], "output"), encoding="utf-8") as f:
            again, *rest = f.read().splitlines()
        self.assertEqual(rest, [f"lost: {failed[1]}", "why"])
        replayed = subprocess.run(["sh", "-c", again], capture_output=True, text=True, check=False)
        self.assertEqual((replayed.returncode, replayed.stdout), (3, f"lost: {failed[1]}\n"))
        self.assertIn("ok crash: test_crash_engine", out.split("FAILED")[1])
        self.assertRegex(out.splitlines()[-1], r"^torture: .* [1-9]\d* failures$")

    def test_a_program_that_says_it_can_not_run_here_is_no_failure(self):
        self.stand_in("test_sim_lease", "echo skipped: no clock here; exit 77")
        out, _ = self.torture("0", "--only", "simulator")
        self.assertIn("left out simulator: test_sim_lease", out)

    def test_ctrl_c_ends_the_round_and_says_what_was_done(self):
        # The name comes when the content is there.
        self.stand_in("test_sim_lease", f'cd "{self.top}"; sleep 60 & echo $! >made; mv made pid; wait')
        run = subprocess.Popen(self.command("1", "--only", "crash,simulator"),
                               stdout=subprocess.PIPE, text=True)
        while not os.path.exists(os.path.join(self.top, "pid")):
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=20)
        self.assertEqual(run.returncode, 0)
        self.assertRegex(out.splitlines()[-1], r"^torture: .* 1 rounds, 1,200 images, 0 failures$")
        with open(os.path.join(self.top, "pid"), encoding="utf-8") as f:
            pid = int(f.read())
        until = time.monotonic() + 20  # a signal needs its turn on a busy machine
        while self.state_of(pid) in "RS" and time.monotonic() < until:
            time.sleep(0.01)
        self.assertNotIn(self.state_of(pid), "RS")

    def test_what_it_can_not_do_is_said(self):
        self.assertIn("no family rain; there are crash,", self.torture("1", "--only", "rain", code=2)[1])
        self.assertIn("how many minutes?", self.torture(code=2)[1])

    def test_help_and_list_tell_what_there_is(self):
        out, _ = self.torture("--help")
        for part in ("MINUTES", "--only", "--seed", "--list", "Exit code"):
            self.assertIn(part, out)
        out, _ = self.torture("--list")
        tests = set(re.findall(r"\b(?:test|fuzz)_\w+", out))
        for family in ("crash", "damage", "faults", "processes", "lease", "simulator", "concurrency",
                       "races", "model", "fuzz"):
            self.assertIn(f"\n{family} ", "\n" + out)
        there = {os.path.splitext(os.path.basename(p))[0] for p in tree.files(tree.root())}
        self.assertEqual(tests - there, set(), "a test that is not in the tree")


if __name__ == "__main__":
    unittest.main()
