# ctest: timeout=120
"""Each acknowledged write was synced before it was acknowledged, as seen from outside the process:

  strace       of the POSIX back end, and of the path of a lone small group: every write to the log
               that ended before an acknowledgement carried RWF_DSYNC, or a fdatasync of its file
               that began after it had ended, and ended before, is there
  tracepoints  of io_uring: the same of the ring's WRITE and FSYNC requests

A program writes a batch, prints the acknowledgement, and so on, one at a time. Where strace or the
tracepoints may not be used, that is said. (The same rule, everywhere: the trace of the fault double,
test_crash_engine.)
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARIES = os.environ.get("RF_BINARY_DIR") or sys.exit("RF_BINARY_DIR must name the build")
PROGRAM = os.path.join(BINARIES, "bin", "test_crash_process")
BATCHES = 24
TRACING = "/sys/kernel/tracing"

CALL = re.compile(r"^(\d+) +(\w+)\((.*)$")
RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")
RESULT = re.compile(r"= (-?\d+)(?: \w+ \(.*\))?\s*$")
LOG_FILE = re.compile(r"^\d+<([^>]*/lane-\d\d/\d{10})>")
SUBMIT = re.compile(r"ring (\w+), req (\w+), .*opcode (\w+),")
COMPLETE = re.compile(r"ring (\w+), req (\w+), .*result (-?\d+)")


class Unsynced(Exception):
    pass


class Log:
    """Writes and syncs of one log file as they end, and what is not durable yet."""

    def __init__(self):
        self.pending = {}  # write -> (file, when it ended)
        self.acks, self.dsync, self.synced = 0, 0, 0
        self.seen = 0  # writes since the last acknowledgement
        self.most = 0

    def wrote(self, key, file, when, dsync):
        self.seen += 1
        if dsync:
            self.dsync += 1
        else:
            self.pending[key] = (file, when)

    def sync_ended(self, file, began):
        done = [k for k, (f, ended) in self.pending.items() if f == file and ended < began]
        self.synced += len(done)
        for key in done:
            del self.pending[key]

    def acknowledged(self, what, needs_writes):
        self.acks += 1
        if self.pending:
            raise Unsynced(f"{what}: not synced: {self.pending}")
        if needs_writes and self.seen == 0:
            raise Unsynced(f"{what}: nothing was written for it")
        self.most = max(self.most, self.seen)
        self.seen = 0


def read_strace(lines, needs_writes):
    """Feeds a Log; begin and end of a call are the lines where strace saw them."""
    log, begun = Log(), {}
    for when, line in enumerate(lines):
        match = CALL.match(line)
        if match:
            pid, name, rest = match.groups()
            begun[pid] = (name, rest, when)
            if name == "write" and '"ack ' in rest:
                log.acknowledged(rest.split('"')[1], needs_writes)
            if "<unfinished" in rest:
                continue
            tail = rest
        else:
            match = RESUMED.match(line)
            if not match:
                continue
            pid, name, tail = match.groups()
        name, rest, began = begun.pop(pid, (name, "", when))
        result = RESULT.search(tail)
        file = LOG_FILE.match(rest)
        if result is None or file is None:
            continue
        if int(result.group(1)) < 0:
            raise Unsynced(f"a call failed: {line}")
        if name in ("pwritev2", "pwrite64"):
            log.wrote(when, file.group(1), when, "RWF_DSYNC" in rest + tail)
        elif name in ("fdatasync", "fsync"):
            log.sync_ended(file.group(1), began)
    return log


def read_tracepoints(lines):
    log, requests, ring = Log(), {}, None
    for when, line in enumerate(lines):
        submit, complete = SUBMIT.search(line), COMPLETE.search(line)
        if "tracing_mark_write: ack" in line:
            log.acknowledged(line.split("tracing_mark_write: ")[1].strip(), False)
        elif "io_uring_submit_req" in line and submit and "rf-lane" in line:
            ring = submit.group(1)
            requests[submit.group(2)] = (submit.group(3), when)
        elif "io_uring_complete" in line and complete and complete.group(1) == ring:
            opcode, began = requests.pop(complete.group(2), (None, 0))
            if opcode in ("WRITE", "WRITE_FIXED", "WRITEV"):
                log.wrote(when, "log", when, False)
            elif opcode == "FSYNC" and int(complete.group(3)) == 0:
                log.sync_ended("log", began)
    return log


class Synced(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="ringfence-test-")
        self.addCleanup(shutil.rmtree, self.top, True)
        self.dir = os.path.join(self.top, "data")

    def run_program(self, backend, before=(), env=None):
        command = list(before) + [PROGRAM, "write", self.dir, backend, str(BATCHES)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100,
                              env=dict(os.environ, **(env or {})), check=False)
        return done

    def strace(self, backend):
        out = os.path.join(self.top, "strace")
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed")
        done = self.run_program(backend, ["strace", "-f", "-y", "-s", "16", "-o", out, "-e",
                                          "trace=pwritev2,pwrite64,fdatasync,fsync,write"])
        if "ptrace" in done.stderr and done.returncode != 0:
            self.skipTest(f"strace may not trace here: {done.stderr.strip()}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("ack "), BATCHES)
        with open(out) as f:
            return f.read().split("\n"), done.stdout.split("backend ")[1].strip()

    def test_posix(self):
        lines, backend = self.strace("posix")
        log = read_strace(lines, True)
        print(f"posix: {log.acks} acknowledged, {log.dsync} writes with RWF_DSYNC, "
              f"{log.synced} covered by a sync", flush=True)
        self.assertEqual((backend, log.acks), ("posix", BATCHES))
        self.assertGreater(log.dsync + log.synced, BATCHES - 1)

    def test_lone_groups_of_the_ring(self):
        lines, backend = self.strace("auto")
        if backend != "uring":
            self.skipTest("no io_uring here")
        log = read_strace(lines, False)
        print(f"uring: {log.acks} acknowledged, {log.dsync} by a lone write with RWF_DSYNC",
              flush=True)
        self.assertEqual(log.acks, BATCHES)
        # Two of three batches are small and alone.
        self.assertGreaterEqual(log.dsync, BATCHES // 3)

    def test_ring(self):
        if os.geteuid() != 0:
            self.skipTest("the tracepoints of io_uring: only as root")
        if not os.path.isdir(f"{TRACING}/events"):
            mounted = subprocess.run(["mount", "-t", "tracefs", "none", TRACING],
                                     capture_output=True, check=False)
            if mounted.returncode == 0:
                self.addCleanup(subprocess.run, ["umount", TRACING], capture_output=True,
                                check=False)
        if not os.path.isdir(f"{TRACING}/events/io_uring"):
            self.skipTest("this kernel shows no tracepoints of io_uring")
        instance = tempfile.mkdtemp(prefix="ringfence-", dir=f"{TRACING}/instances")
        self.addCleanup(os.rmdir, instance)
        for event in ("io_uring_submit_req", "io_uring_complete"):
            with open(f"{instance}/events/io_uring/{event}/enable", "w") as f:
                f.write("1")
        # Of the program alone, its threads and its rings' workers: others use rings as well.
        with open(f"{instance}/options/event-fork", "w") as f:
            f.write("1")
        done = self.run_program("auto", ["sh", "-c", 'echo $$ >"$0" && exec "$@"',
                                         f"{instance}/set_event_pid"],
                                env={"RF_TRACE_MARKER": f"{instance}/trace_marker"})
        self.assertEqual(done.returncode, 0, done.stderr)
        if "backend uring" not in done.stdout:
            self.skipTest("no io_uring here")
        with open(f"{instance}/trace") as f:
            lines = f.read().split("\n")
        if not any("FSYNC" in line for line in lines) and self.has_fua():
            self.skipTest("the disk has FUA: the ring's writes carry RWF_DSYNC, "
                          "which the tracepoints don't show")
        log = read_tracepoints(lines)
        print(f"ring: {log.acks} acknowledged, {log.synced} of its writes covered by a sync",
              flush=True)
        self.assertEqual(log.acks, BATCHES)
        self.assertGreaterEqual(log.synced, 1)

    @staticmethod
    def has_fua():
        base = "/sys/block"
        for disk in os.listdir(base):
            try:
                with open(f"{base}/{disk}/queue/fua") as f:
                    if f.read().strip() == "1":
                        return True
            except OSError:
                pass
        return False

    def test_the_rule_itself(self):
        """A log that breaks the rule is told from one that keeps it."""
        write = '7 pwritev2(6</d/lane-00/0000000001>, [{"x"}], 1, 4096, 0) = 4096'
        dsync = '7 pwritev2(6</d/lane-00/0000000001>, [{"x"}], 1, 4096, RWF_DSYNC) = 4096'
        sync = "7 fdatasync(6</d/lane-00/0000000001>) = 0"
        ack = '1 write(1, "ack 1\\n", 6) = 6'
        self.assertEqual(read_strace([write, sync, ack], True).synced, 1)
        self.assertEqual(read_strace([dsync, ack], True).dsync, 1)
        early = ["8 fdatasync(6</d/lane-00/0000000001> <unfinished ...>", write,
                 "8 <... fdatasync resumed>) = 0", ack]
        other = sync.replace("0001>", "0002>")
        late = [write, "7 fdatasync(6</d/lane-00/0000000001> <unfinished ...>", ack,
                "7 <... fdatasync resumed>) = 0"]
        failed = [write, sync.replace("= 0", "= -1 EIO (Input/output error)"), ack]
        for bad in ([write, ack], [sync, write, ack], early, late, [write, other, ack], failed,
                    [ack]):
            with self.assertRaises(Unsynced, msg=bad):
                read_strace(bad, True)
        submit = ("rf-lane-00-9 [000] 1.0: io_uring_submit_req: ring 0a, req 0b, user_data 0x1, "
                  "opcode {}, flags 0x0, sq_thread 0")
        complete = ("x-1 [000] 1.0: io_uring_complete: ring 0a, req 0b, user_data 0x1, result {}, "
                    "cflags 0x0")
        mark = "t-1 [000] 1.0: tracing_mark_write: ack 1"
        ring_write = [submit.format("WRITE"), complete.format(4096)]
        ring_sync = [submit.format("FSYNC"), complete.format(0)]
        self.assertEqual(read_tracepoints(ring_write + ring_sync + [mark]).synced, 1)
        for bad in (ring_write + [mark], ring_sync + ring_write + [mark],
                    ring_write + [ring_sync[0], mark, ring_sync[1]],
                    ring_write + [submit.format("FSYNC"), complete.format(-5), mark]):
            with self.assertRaises(Unsynced, msg=bad):
                read_tracepoints(bad)


if __name__ == "__main__":
    unittest.main(verbosity=2)
