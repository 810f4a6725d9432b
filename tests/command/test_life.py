# ctest: slow timeout=300
"""The directory's life: kills, signals, locks, limits, places that are not ours."""

import ctypes
import errno
import os
import random
import re
import resource
import signal
import struct
import subprocess
import time
import unittest

import cli

NEEDS_ROOT = unittest.skipIf(os.geteuid() != 0, "becomes another user or mounts: needs root")


def numbered(count, table="m"):
    return "".join(f"{table},k=k{i % 7} v={i}i,w={i}.5 {i}\n" for i in range(count))


class Crash(cli.Case):
    def wait_for_acks(self, at_least):
        for _ in range(5000):
            if os.path.exists(self.path("acks")) and self.acked() >= at_least:
                return
            time.sleep(0.002)
        self.fail("no acks")

    def acked(self):
        lines = self.read("acks").split("\n")
        self.assertEqual(lines[-1], "", "a line of the acks file is not whole")
        return int(lines[-2]) if len(lines) > 1 else 0

    def test_after_a_kill_what_the_acks_say_is_there_and_batches_are_whole(self):
        seed = int(os.environ.get("RF_SEED", random.randrange(2**32)))
        print(f"RF_SEED={seed}")
        chance = random.Random(seed)
        path = self.write("a.lp", numbered(60000))
        for turn in range(8):
            self.dir = self.path(f"data{turn % 2}")
            writers, sync = chance.choice([("1", "always"), ("6", "always"), ("4", "async")])
            load = self.start("load", "--dir", self.dir, "--memory", "64M", "--segment", "4M",
                              "--batch-rows", "50", "--writers", writers, "--sync", sync, "--acks",
                              "acks", path, stdout=subprocess.DEVNULL)
            self.addCleanup(load.kill)
            self.wait_for_acks(chance.randrange(50, 4000))
            load.send_signal(signal.SIGKILL)
            self.assertIn(load.wait(), (-signal.SIGKILL, 0))
            acked = self.acked()
            there = [int(r.split(",")[0]) for r in self.rows("m", "--times", "int")]
            self.assertEqual(len(there), len(set(there)))
            self.assertTrue(set(range(acked)) <= set(there), (writers, sync))
            self.assertEqual(len(there) % 50, 0, "a batch is there in part")
            self.assertEqual(self.run_command("verify", "--dir", self.dir).code, 0)
            os.unlink(self.path("acks"))

    def test_the_first_signal_stops_in_order_and_says_what_is_stored(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self.dir = self.path(f"data{int(number)}")
            load = self.start("load", "--dir", self.dir, *cli.SMALL, "--batch-rows", "10", "--acks",
                              "acks", "-", stdin=-1, stderr=-1, stdout=-1)
            load.stdin.write(numbered(25).encode())
            load.stdin.flush()
            self.wait_for_acks(20)
            load.send_signal(number)
            # The standard input stays open: the load must not wait for it.
            load.wait(timeout=20)
            err = load.stderr.read().decode()
            self.assertEqual(load.returncode, 130)
            self.assertIn("the first 20 lines of the input are stored (20 rows in 2 batches)", err)
            for stream in (load.stdin, load.stderr, load.stdout):
                stream.close()
            self.assertEqual(self.count("m"), 20)
            self.assertIn("clean", self.run_command("verify", "--dir", self.dir).out)
            os.unlink(self.path("acks"))

    def test_a_directory_whose_creation_did_not_finish_is_empty(self):
        os.makedirs(os.path.join(self.dir, "lane-00"))
        for words in (["query", "--table", "m"], ["tables"], ["stat"], ["verify"]):
            result = self.run_command(words[0], "--dir", self.dir, *words[1:])
            self.assertIn("its creation did not finish", result.err + result.out)
        self.load_text(numbered(3))
        self.assertEqual(self.count("m"), 3)


class Places(cli.Case):
    def test_every_command_but_load_refuses_a_missing_directory(self):
        for words in (["query", "--table", "m"], ["delete", "--table", "m"], ["trim", "--before", "5"],
                      ["tables"], ["stat"], ["dump"], ["verify"], ["salvage"]):
            result = self.run_command(words[0], "--dir", self.dir, *words[1:], code=3)
            self.assertIn("ENOENT", result.err, words)
            self.assertIn(self.dir, result.err, words)
            self.assertFalse(os.path.exists(self.dir), words)

    def test_a_directory_of_something_else_is_refused_and_left_alone(self):
        os.mkdir(self.dir)
        with open(os.path.join(self.dir, "letter.txt"), "w", encoding="ascii") as f:
            f.write("dear sir")
        self.assertIn("NOT_OURS", self.load_text(numbered(1), code=3).err)
        for words in (["query", "--table", "m"], ["tables"], ["verify"]):
            self.run_command(words[0], "--dir", self.dir, *words[1:], code=3)
        self.assertEqual(os.listdir(self.dir), ["letter.txt"])
        not_a_dir = self.write("file", "text")
        self.assertIn("not a directory", self.run_command("load", "--dir", not_a_dir, "-", code=3).err)

    def test_a_directory_of_a_newer_version_is_refused_and_left_alone(self):
        self.load_text(numbered(5))
        path = os.path.join(self.dir, "catalog.db")
        with open(path, "rb") as f:
            before = f.read()
        newer = before[:60] + b"\0\0\0\x63" + before[64:]
        with open(path, "wb") as f:
            f.write(newer)
        for words in (["query", "--table", "m"], ["tables"], ["delete", "--table", "m"]):
            result = self.run_command(words[0], "--dir", self.dir, *words[1:], code=3)
            self.assertIn("NEWER_VERSION", result.err, words)
        self.assertIn("NEWER_VERSION", self.load("-", code=3, stdin=b"m v=1 1\n").err)
        with open(path, "rb") as f:
            self.assertEqual(f.read(), newer)
        with open(path, "wb") as f:
            f.write(before)
        self.assertEqual(self.count("m"), 5)

    def test_a_directory_in_use_is_refused_at_once_or_waited_for(self):
        self.load_text(numbered(5))
        load = self.start("load", "--dir", self.dir, *cli.SMALL, "--batch-rows", "1", "--acks", "acks",
                          "-", stdin=-1, stdout=subprocess.DEVNULL)
        load.stdin.write(numbered(1).encode())
        load.stdin.flush()
        for _ in range(2000):
            if os.path.exists(self.path("acks")) and self.read("acks"):
                break
            time.sleep(0.005)
        begun = time.monotonic()
        for words in (["query", "--table", "m"], ["tables"], ["stat"], ["dump"], ["verify"]):
            result = self.run_command(words[0], "--dir", self.dir, "--wait", "0.1", *words[1:], code=3)
            self.assertIn("IN_USE", result.err, words)
        self.assertLess(time.monotonic() - begun, 5)
        self.load("--wait", "0.1", "-", code=3, stdin=b"m v=1 1\n")
        reader = self.start("query", "--dir", self.dir, "--table", "m", "--count", "--wait", "20",
                            stdout=-1)
        time.sleep(0.3)
        self.assertIsNone(reader.poll())
        load.stdin.close()
        self.assertEqual(load.wait(timeout=20), 0)
        self.assertEqual(reader.communicate(timeout=20)[0], b"5\n")

    def test_readers_do_not_keep_each_other_out(self):
        self.load_text(numbered(50))
        readers = [self.start("query", "--dir", self.dir, "--table", "m", "--count", stdout=-1)
                   for _ in range(4)]
        self.assertEqual([r.communicate()[0] for r in readers], [b"50\n"] * 4)


def as_nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def without_io_uring():
    """io_uring_setup answers EPERM from here on, as in many containers: a filter of four
    instructions of classic BPF (seccomp(2)). The number of the call is the same on every
    architecture."""
    load_word, jump_equal, give = 0x20, 0x15, 0x06
    setup, allow, refuse = 425, 0x7FFF0000, 0x00050000 | errno.EPERM
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in (
        (load_word, 0, 0, 0), (jump_equal, 0, 1, setup), (give, 0, 0, refuse), (give, 0, 0, allow)))
    buffer = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8,
                                                      ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_filter = 38, 22
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(set_filter, 2, program, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def may_filter_calls():
    try:
        subprocess.run(["true"], check=True, preexec_fn=without_io_uring)
    except subprocess.SubprocessError:
        return False
    return True


class Limits(cli.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.top, 0o777)

    def limited(self, what, value, text, code):
        def limit():
            resource.setrlimit(what, (value, value))
        return self.run_command("load", "--dir", self.dir, *cli.SMALL, "-", stdin=text.encode(),
                                code=code, preexec_fn=limit)

    def test_a_limit_on_file_sizes_is_an_error_not_a_signal(self):
        result = self.limited(resource.RLIMIT_FSIZE, 256 << 10, numbered(5), 3)
        self.assertRegex(result.err, "EFBIG|DISK_FULL|ENOSPC")
        self.load_text(numbered(5))
        self.assertEqual(self.count("m"), 5)

    def test_a_limit_on_open_files_is_an_error(self):
        result = self.limited(resource.RLIMIT_NOFILE, 6, numbered(5), 3)
        self.assertIn("EMFILE", result.err)
        self.load_text(numbered(5))
        self.assertEqual(self.count("m"), 5)

    def test_no_memory_may_be_locked_and_it_works_all_the_same(self):
        self.limited(resource.RLIMIT_MEMLOCK, 0, numbered(5), 0)
        self.assertEqual(self.count("m"), 5)

    def test_without_io_uring_everything_works_and_asking_for_it_is_an_error(self):
        if not may_filter_calls():
            self.skipTest("no filter of system calls here")
        self.run_command("load", "--dir", self.dir, *cli.SMALL, "-", stdin=numbered(500).encode(),
                         preexec_fn=without_io_uring)
        counted = self.run_command("query", "--dir", self.dir, "--table", "m", "--count",
                                   preexec_fn=without_io_uring)
        self.assertEqual(counted.out, "500\n")
        self.assertEqual(self.count("m"), 500)
        bench = ["bench", "--dir", self.path("bench"), "--reuse", *cli.SMALL, "--points", "100000", "--warmup", "0",
                 "--backend"]
        self.run_command(*bench, "auto", preexec_fn=without_io_uring)
        self.assertIn("EPERM", self.run_command(*bench, "uring", preexec_fn=without_io_uring,
                                                code=3).err)

    @NEEDS_ROOT
    def test_modes_count_for_a_user_who_is_not_root(self):
        self.copy_command()
        self.load_text(numbered(5))
        os.chmod(self.dir, 0o700)
        for words in (["query", "--table", "m"], ["tables"], ["dump"], ["verify"]):
            result = self.run_command(words[0], "--dir", self.dir, *words[1:], code=3,
                                      preexec_fn=as_nobody)
            self.assertIn("EACCES", result.err, words)
        os.chmod(self.top, 0o755)
        self.assertIn("EACCES", self.run_command("load", "--dir", self.path("new"), "-", code=3,
                                                 preexec_fn=as_nobody).err)

    @NEEDS_ROOT
    def test_a_user_who_is_not_root_has_the_whole_of_it(self):
        self.copy_command()
        result = self.run_command("load", "--dir", self.dir, *cli.SMALL, "-", code=0,
                                  stdin=numbered(500).encode(), preexec_fn=as_nobody)
        self.assertIn("500 rows", result.out)
        result = self.run_command("query", "--dir", self.dir, "--table", "m", "--count",
                                  preexec_fn=as_nobody)
        self.assertEqual(result.out, "500\n")

    @NEEDS_ROOT
    def test_reading_works_on_a_read_only_mount_and_writing_is_refused(self):
        self.load_text(numbered(5))
        mount = self.path("mount")
        os.mkdir(mount)
        script = ('mount --bind "$1" "$2" && mount -o remount,bind,ro "$2" || exit 77\n'
                  'for c in "query --table m --count" tables stat verify dump\n'
                  'do "$3" ${c%% *} --dir "$2" ${c#"${c%% *}"} || exit 1; done\n'
                  'echo "m v=1 1" | "$3" load --dir "$2" -; echo "load exits $?"')
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", self.dir, mount, cli.COMMAND],
                              capture_output=True, check=False, timeout=60)
        out = done.stdout.decode()
        if not out and (done.returncode == 77 or b"unshare" in done.stderr):
            self.skipTest(f"no mounts here: {done.stderr.decode().strip()}")
        self.assertTrue(out.startswith("5\n"), out + done.stderr.decode())
        self.assertIn("load exits 3", out)
        self.assertRegex(done.stderr.decode(), "EROFS|READ_ONLY")


class FullDisk(cli.Case):
    @NEEDS_ROOT
    def test_a_full_disk_keeps_what_is_acknowledged(self):
        """A file system of 8 MiB takes a few segments; the log may grow to 16 MiB."""
        mount = self.path("mount")
        os.mkdir(mount)
        lines = self.write("a.lp", "".join(f'm v="{"x" * 4000}" {i}\n' for i in range(3000)))
        script = ('mount -t tmpfs -o size=8m none "$1" || exit 77\n'
                  '"$2" load --dir "$1/data" --memory 16M --segment 1M --batch-rows 20 --write-wait 0.3 '
                  '--acks "$1/../acks" "$3"; echo "load exits $?"\n'
                  '"$2" query --dir "$1/data" --table m --count && "$2" verify --dir "$1/data"')
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", mount, cli.COMMAND, lines],
                              capture_output=True, check=False, timeout=100)
        out, err = done.stdout.decode(), done.stderr.decode()
        if not out and (done.returncode == 77 or "unshare" in err):
            self.skipTest(f"no mounts here: {err.strip()}")
        self.assertIn("load exits 3\n", out)
        self.assertRegex(err, "DISK_FULL|ENOSPC|WRITE_REJECT")
        acked = int(self.read("acks").split("\n")[-2])
        self.assertGreater(acked, 0)
        self.assertIn(f"\n{acked}\nclean", out)


class FullLog(cli.Case):
    def test_a_full_log_says_what_to_do_and_loses_nothing(self):
        text = "".join(f'm v="{"x" * 8000}" {i * 10**9 * 86400}\n' for i in range(3000))
        result = self.load_text(text, "--batch-rows", "10", "--write-wait", "0.2", "--acks", "acks",
                                code=3)
        self.assertRegex(result.err, "WRITE_REJECT|DISK_FULL")
        self.assertIn("ringfence trim --before", result.err)
        stored = int(re.search(r"the first (\d+) lines", result.err)[1])
        self.assertGreater(stored, 0)
        self.assertEqual(self.read("acks").split("\n")[-2], str(stored))
        self.assertEqual(self.count("m"), stored)
        self.run_command("trim", "--dir", self.dir, "--before", str(stored * 10**9 * 86400))
        self.load_text("m v=\"new\" 1\n")


if __name__ == "__main__":
    cli.main()
