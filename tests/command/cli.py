"""What the command's tests share: running it as a user types, in a directory of their own."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

COMMAND = os.environ.get("RF_COMMAND") or sys.exit("RF_COMMAND must name the command")
TOP = os.environ.get("RF_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
DATA = os.path.join(TOP, "examples", "data")

# A small log opens quickly; a test that wants another one says so.
SMALL = ["--memory", "16M", "--segment", "1M"]


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


class Case(unittest.TestCase):
    """A test in a fresh directory; self.dir is the name of a database that is not there yet."""

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="ringfence-test-", dir=os.environ.get("RF_TEST_DIR"))
        self.addCleanup(shutil.rmtree, self.top, True)
        self.dir = self.path("data")
        self.command = COMMAND

    def copy_command(self):
        """For another user, who may not be let into the checkout: the command and its library,
        copied beside each other."""
        library = os.path.realpath(os.path.join(os.path.dirname(COMMAND), "..", "libringfence.so.0"))
        shutil.copy(library, self.path("libringfence.so.0"))
        self.command = self.write("ringfence", f'#!/bin/sh\nLD_LIBRARY_PATH={self.top} exec '
                                  f'{self.path("ringfence-itself")} "$@"\n')
        shutil.copy(COMMAND, self.path("ringfence-itself"))
        os.chmod(self.command, 0o755)

    def path(self, *names):
        return os.path.join(self.top, *names)

    def write(self, name, text):
        path = self.path(name)
        with open(path, "wb") as f:
            f.write(text.encode() if isinstance(text, str) else text)
        return path

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def run_command(self, *words, stdin=b"", code=0, **more):
        """Runs `ringfence WORDS...`; code: the exit code that is expected, None: any."""
        done = subprocess.run([self.command, *words], input=stdin, capture_output=True, cwd=self.top,
                              timeout=100, check=False, **more)
        result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
        if code is not None and result.code != code:
            self.fail(f"ringfence {' '.join(words)}: exit {result.code}, expected {code}\n"
                      f"{result.out}{result.err}")
        return result

    def start(self, *words, **more):
        return subprocess.Popen([self.command, *words], cwd=self.top, **more)

    def load(self, *words, code=0, small=True, **more):
        return self.run_command("load", "--dir", self.dir, *(SMALL if small else []), *words,
                                code=code, **more)

    def load_text(self, text, *words, code=0):
        return self.load(*words, "-", code=code, stdin=text.encode())

    def query(self, table, *words, code=0):
        return self.run_command("query", "--dir", self.dir, "--table", table, *words, code=code).out

    def rows(self, table, *words):
        return self.query(table, *words).split("\n")[1:-1]

    def count(self, table, *words):
        return int(self.query(table, "--count", *words))


main = unittest.main
