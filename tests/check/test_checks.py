"""The checks themselves: each finds what it is for, and leaves alone what is allowed."""

import os
import tempfile
import unittest

import test_errors
import test_exports
import test_functions
import test_includes
import test_mutants
import test_version
import test_words


def faults_in(check, **contents):
    """What check finds in a tree of these files; __ in a name stands for a slash."""
    with tempfile.TemporaryDirectory() as top:
        for name, text in contents.items():
            path = os.path.join(top, name.replace("__", "/").replace("_DOT_", "."))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        return check(top)[0]


class Includes(unittest.TestCase):
    def one(self, path, line):
        return test_includes.fault_of(path, *test_includes.INCLUDE.match(line).groups())

    def test_refused(self):
        for path, line in [
                ("base/a.c", '#include "io/io.h"'),
                ("io/a.c", '#include "wal/record.h"'),
                ("wal/a.c", '#include "engine/engine.h"'),
                ("engine/a.c", '#include "plane/plane.h"'),
                ("engine/a.c", "#include <liburing.h>"),
                ("plane/a.c", '#include "io/io.h"'),
                ("cli/a.c", '#include "wal/record.h"'),
                ("api/a.c", '#include "cli/args.h"'),
                ("engine/a.c", '#include "wal/wal_impl.h"'),
                ("io/posix.c", "#include <liburing.h>"),
                ("wal/a.c", "#include <xxhash.h>"),
                ("base/log.c", "#include <jemalloc/jemalloc.h>"),
                ("plane/plane.c", "#include <sqlite3.h>"),
                ("include/ringfence/ringfence.h", "#include <liburing.h>"),
                ("include/ringfence/ringfence.h", '#include "base/check.h"'),
                ("tests/integration/test_a.c", '#include "base/check.h"'),
                ("examples/a.c", '#include "base/check.h"'),
        ]:
            self.assertIsNotNone(self.one(path, line), (path, line))

    def test_allowed(self):
        for path, line in [
                ("base/a.c", '#include "base/b.h"'),
                ("wal/a.c", '#include "io/io.h"'),
                ("wal/a.c", '#include "wal/wal_impl.h"'),
                ("api/a.c", '#include "plane/plane.h"'),
                ("api/a.c", "#include <ringfence/ringfence.h>"),
                ("cli/a.c", '#include "cli/args.h"'),
                ("cli/a.c", '#include "base/hash.h"'),
                ("cli/a.c", "#include <ringfence/ringfence.h>"),
                ("io/uring.c", "#include <liburing.h>"),
                ("base/hash_avx2.c", "#include <xxhash.h>"),
                ("plane/catalog_sqlite.c", "#include <sqlite3.h>"),
                ("tests/unit/wal/test_a.c", '#include "wal/wal_impl.h"'),
                ("tests/unit/plane/test_a.c", "#include <sqlite3.h>"),
                ("tests/integration/test_a.c", "#include <ringfence/ringfence.h>"),
                ("tests/integration/test_a.c", "#include <stdio.h>"),
        ]:
            self.assertIsNone(self.one(path, line), (path, line))

    def test_found_in_a_tree(self):
        self.assertEqual(len(faults_in(test_includes.check, base__a_DOT_c='\n#include "io/io.h"')), 1)


class Words(unittest.TestCase):
    def found(self, path, text):
        return [what for _, what in test_words.faults_of(path, text.split("\n"))]

    def test_refused(self):
        for path, text in [
                ("base/a.c", "/* TO" "DO: later */"),
                ("scripts/x", "# FIX" "ME"),
                ("docs/a.md", "see /home/" "somebody/notes"),
                ("wal/a.c", "int x; "),
                ("wal/a.c", "strcpy(a, b);"),
                ("cli/a.c", "x = atoi(s);"),
                ("wal/a.c", "p = malloc(3);"),
                ("cli/a.c", "p = malloc(3);"),
                ("wal/a.c", "assert(x);"),
        ]:
            self.assertEqual(len(self.found(path, text)), 1, text)

    def test_allowed(self):
        for path, text in [
                ("base/a.c", "/* it strcpy(s) */ p = mem_alloc(3);"),
                ("base/alloc.c", "p = malloc(3);"),
                ("io/fault_disk.c", "p = malloc(3);"),
                ("wal/a.c", "_Static_assert(1, \"\"); pool.free(p); mem_free(p);"),
                ("wal/a.c", 'log("malloc(3)");'),
                ("tests/unit/wal/test_a.c", "p = malloc(3);"),
        ]:
            self.assertEqual(self.found(path, text), [], text)


class Functions(unittest.TestCase):
    def source(self, head, lines):
        return f"{head}\nint f(void)\n{{\n" + "    x++;\n" * lines + "}\n"

    def found(self, head, lines):
        return len(faults_in(test_functions.check, wal__a_DOT_c=self.source(head, lines)))

    def test_length(self):
        self.assertEqual(self.found("", 70), 0)
        self.assertEqual(self.found("", 71), 1)
        self.assertEqual(self.found("/* Longer than a screen: one switch. */", 71), 0)
        self.assertEqual(self.found("/* Longer than a screen: of another one. */\nint y;\n", 71), 1)


class Exports(unittest.TestCase):
    def test_header(self):
        text = ("/* RF_API int rf_no(void); */\nRF_API const char *rf_a(int x);\n"
                "RF_API_CHECK int rf_b(\n    int x);\n")
        self.assertEqual(test_exports.declared(text), {"rf_a", "rf_b"})

    def test_faults(self):
        good = ["RINGFENCE_1", "rf_a@@RINGFENCE_1"]
        find = test_exports.faults_of
        self.assertEqual(find({"rf_a"}, good, ["rf_a"]), [])
        self.assertEqual(len(find({"rf_a"}, good, ["rf_a", "hash64"])), 1)
        self.assertEqual(len(find({"rf_a"}, good, [])), 1)
        self.assertEqual(len(find({"rf_a", "rf_b"}, good, ["rf_a", "rf_b"])), 1)
        self.assertEqual(len(find({"rf_a"}, ["rf_a"], ["rf_a"])), 1)
        self.assertEqual(len(find({"rf_a"}, good + ["x@@RINGFENCE_1"], ["rf_a"])), 2)


class Mutants(unittest.TestCase):
    TREE = {"wal/a.c": "int f(int a)\n{\n    if (a < 1) return 2;\n    return a;\n}\n",
            "tests/unit/wal/test_wal_a.c": ""}
    GOOD = ("== wal-a\nfault: too late\nfound by: unit.wal.test_wal_a\n-- wal/a.c\n"
            "    if (a < 1) return 2;\n++\n    if (a <= 1) return 2;\n")

    def faults(self, records):
        with tempfile.TemporaryDirectory() as top:
            for name, text in dict(self.TREE, **{"m.txt": records}).items():
                path = os.path.join(top, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
            c = test_mutants.catalogue
            try:
                mutants = c.parse(os.path.join(top, "m.txt"))
            except c.Bad as error:
                return [str(error)]
            return c.faults(top, mutants) or c.table(top, mutants)[2:]

    def test_fits(self):
        self.assertEqual(self.faults("# of wal\n\n" + self.GOOD), [
            "| `wal-a` | too late | `wal/a.c`, f() | `unit.wal.test_wal_a` |"])

    def test_refused(self):
        for broken, word in [
                (self.GOOD + self.GOOD, "second time"),
                (self.GOOD.replace("a < 1", "a < 3"), "0 times"),
                (self.GOOD.replace("    if (a < 1) return 2;\n++", "    if (a < 1)\n++"), "0 times"),
                (self.GOOD.replace("a <= 1", "a < 1"), "changes nothing"),
                (self.GOOD.replace("unit.wal.test_wal_a", "unit.wal.test_wal_b"), "no test"),
                (self.GOOD.replace("fault: too late\n", ""), "lacks"),
                (self.GOOD.replace("wal-a", "A"), "no name"),
                (self.GOOD.replace("-- wal/a.c", "-- wal/b.c"), "wal/b.c"),
                (self.GOOD.replace("-- wal/a.c\n", ""), "neither"),
        ]:
            faults = self.faults(broken)
            self.assertEqual(len(faults), 1, faults)
            self.assertIn(word, faults[0])


class Agreement(unittest.TestCase):
    HEADER = ("#define RF_VERSION_MAJOR 0\n#define RF_VERSION_MINOR 1\n#define RF_VERSION_PATCH 0\n"
              "    RF_CODE_A = 1,\n")

    def versions(self, build, log):
        return len(faults_in(test_version.check, include__ringfence__ringfence_DOT_h=self.HEADER,
                             CMakeLists_DOT_txt=f"project(ringfence VERSION {build} X)",
                             CHANGELOG_DOT_md=log))

    def test_version(self):
        self.assertEqual(self.versions("0.1.0", "## Unreleased\n"), 0)
        self.assertEqual(self.versions("0.1.0", "## 0.1.0\n"), 0)
        self.assertEqual(self.versions("0.2.0", "## Unreleased\n"), 1)
        self.assertEqual(self.versions("0.1.0", "## 0.0.9\n"), 1)

    def errors(self, table):
        return len(faults_in(test_errors.check, include__ringfence__ringfence_DOT_h=self.HEADER,
                             base__errors_DOT_def=table))

    def test_errors(self):
        self.assertEqual(self.errors("RF_E(A, 1, REFUSE"), 0)
        self.assertEqual(self.errors("RF_E(A, 2, REFUSE"), 1)
        self.assertEqual(self.errors("RF_E(A, 1, REFUSE\nRF_E(B, 2, REFUSE"), 1)
        self.assertEqual(self.errors(""), 1)


if __name__ == "__main__":
    unittest.main()
