"""Bad input and bad usage: each with its own message and place, and nothing acknowledged is lost."""

import gzip
import os

import cli

GOOD = "m,k=a v=1 1\nm,k=a v=2 2\n"

# A line, the column in it that the message names, and a part of the message.
BAD_LINES = [
    ("m,k=a v=1", 10, "the line has no time"),
    ("m,k=a v=NaN 3", 9, "line protocol has no NaN"),
    ("m,k=a v=-inf 3", 9, "line protocol has no -inf"),
    ("m,k=a v=1e999 3", 9, "outside what DOUBLE holds"),
    ("m,k=a v=x 3", 9, "is no number"),
    ("m,k=a v=9223372036854775808i 3", 9, "outside what INT64 holds"),
    ("m,k=a v=1 9223372036854775808", 11, "outside what 64 bits"),
    ("m,k=a v=1 3 4", 13, "nothing is expected behind the time"),
    ("m,k=a 3", 8, "has no value"),
    ("m,k=a", 6, "no fields"),
    ("m,k= v=1 3", 5, "empty value"),
    ("m,k v=1 3", 4, "has no value"),
    ("m,k=a v=\"open 3", 9, "not closed"),
    ("m\\n,k=a v=1 3", 2, "backslash"),
    ("m,k=a\\x v=1 3", 6, "backslash"),
    ("m\x02,k=a v=1 3", 2, "control character 0x02"),
    ("m,k=a v\x7f=1 3", 8, "control character 0x7f"),
    ("m,k=a,k=b v=1 3", 7, "is there twice"),
    ("m,k=a v=1,v=2 3", 11, "is there twice"),
    ("m,k=a v=1,k=2 3", 11, "is there twice"),
    ("m v=1,k=2 3", 7, "a field here and a tag"),
    ("m,k=a v=1i 3", 7, "INT64"),
    ("m,k=a time=1 3", 7, "can't be named"),
    (",k=a v=1 3", 1, "the table's name is empty"),
    ("x" * 256 + " v=1 3", 1, "at most 255"),
    ("m,k=a " + "f" * 256 + "=1 3", 7, "at most 255"),
]


class BadLines(cli.Case):
    def test_each_stops_the_load_with_file_line_and_column(self):
        self.load_text(GOOD)
        for line, column, why in BAD_LINES:
            path = self.write("bad.lp", "# one\nm,k=b v=7 9\n" + line + "\nm,k=b v=8 10\n")
            result = self.load(path, code=1)
            self.assertIn(f"{path}:3:{column}: ", result.err, line)
            self.assertIn(why, result.err, line)
            self.assertIn("the first 0 lines of the input are stored", result.err)
            self.assertEqual(self.rows("m", "--times", "int"), ["1,a,1", "2,a,2"], line)

    def test_each_is_put_aside_by_skip_bad(self):
        text = GOOD + "".join(line + "\n" for line, _, _ in BAD_LINES) + "m,k=a v=3 3\n"
        path = self.write("mixed.lp", text)
        result = self.load("--skip-bad", "bad.lp", "--acks", "acks", path)
        self.assertEqual(self.rows("m", "--times", "int"), ["1,a,1", "2,a,2", "3,a,3"])
        self.assertEqual(self.read("bad.lp").split("\n")[:-1], [line for line, _, _ in BAD_LINES])
        self.assertEqual(self.read("acks"), f"{len(BAD_LINES) + 3}\n")
        self.assertIn(f"skipped {len(BAD_LINES)} lines", result.out)
        self.assertIn(f"{path}:3:10: the line has no time", result.err)

    def test_what_the_engine_refuses_has_its_place_too(self):
        self.load_text(GOOD)
        path = self.write("bad.lp", "m,k=a v=5 5\nm,k=a x=1,v=\"text\" 6\nm,k=a v=7 7\n"
                                    "m,k=a x=2,v=\"more\" 8\n")
        # In one batch the second line does not fit the first.
        self.assertIn(f"{path}:2:11: ", self.load(path, code=1).err)
        # In batches of their own the table's type decides.
        result = self.load("--batch-rows", "1", path, code=1)
        self.assertIn(f"{path}:2:11: ", result.err)
        self.assertIn("TYPE_MISMATCH", result.err)
        self.assertIn("the first 1 lines of the input are stored", result.err)
        self.load("--batch-rows", "1", "--skip-bad", "aside", path)
        self.assertEqual(self.read("aside"), 'm,k=a x=1,v="text" 6\nm,k=a x=2,v="more" 8\n')
        self.assertEqual([r[0] for r in self.rows("m", "--times", "int")], ["1", "2", "5", "7"])

    def test_batches_in_front_of_a_bad_line_are_stored_whatever_the_writers(self):
        lines = [f"m v={i} {i}\n" for i in range(1000)]
        lines[777] = "m v=bad 777\n"
        path = self.write("a.lp", "".join(lines))
        for writers in ("1", "8"):
            self.dir = self.path("data" + writers)
            result = self.load("--batch-rows", "10", "--writers", writers, "--acks", "acks", path,
                               code=1)
            self.assertIn(f"{path}:778:5: ", result.err)
            self.assertIn("the first 770 lines", result.err)
            self.assertEqual(self.read("acks").split("\n")[-2], "770")
            self.assertEqual(self.count("m"), 770)

    def test_skipped_lines_come_back_mended(self):
        self.load_text("m v=1 1\nm v=2\n", "--skip-bad", "bad.lp")
        self.write("mended.lp", self.read("bad.lp").replace("v=2", "v=2 2"))
        self.load("mended.lp")
        self.assertEqual(self.count("m"), 2)


class BadCsv(cli.Case):
    def load_csv(self, text, *words, code=1):
        path = self.write("a.csv", text)
        result = self.load("--table", "t", *words, path, code=code)
        return result.err.replace(path, "a.csv")

    def test_each_stops_the_load_with_file_line_and_column(self):
        for text, words, place in [
                ("time,v\n1,1\n2,x\n", [], "a.csv:3:3: \"x\" in column \"v\" is no DOUBLE"),
                ("time,v\n1,true\n2,7\n", [], "a.csv:3:3: \"7\" in column \"v\" is no BOOLEAN"),
                ("time,v\n1,1,1\n", [], "a.csv:2:5: 3 fields, the header has 2"),
                ("time,v\n1\n", [], "a.csv:2:2: 1 fields"),
                ("time,v\n,1\n", [], "a.csv:2:1: the line has no time"),
                ("time,v\nx,1\n", [], "a.csv:2:1: \"x\" is no time"),
                ("time,v\n1,\"a\nb\" c\n", [], "a.csv:3:3: a comma or the line's end"),
                ("time,v\n1,a\"b\n", [], "a.csv:2:4: a quote inside"),
                ("time,v\n1,\"a\n2,b\n", [], "a.csv:2:3: the quote is never closed"),
                ("time,v,v\n1,1,1\n", [], "a.csv:1:8: the column \"v\" is there twice"),
                ("when,v\n1,1\n", [], "a.csv:1:1: the header has no column \"time\""),
                ("time,v\n1,1\n", ["--tags", "k"], "a.csv:1:1: the header has no column \"k\""),
                ("time,v\n1,1\n", ["--types", "k=INT64"], "a.csv:1:1: the header has no column \"k\""),
                ("time,v\n1,1.5\n", ["--types", "v=INT32"], "a.csv:2:3: \"1.5\" in column"),
                ("time,\x01\n", [], "a.csv:1:6: control character 0x01"),
                ("time,v\n2010/02/30,1\n", ["--time-format", "%Y/%m/%d"], "a.csv:2:1: the time"),
        ]:
            self.assertIn(place, self.load_csv(text, *words), text)

    def test_skip_bad_keeps_the_header_so_that_the_rest_can_be_mended(self):
        self.load_csv("time,v\n1,1\n2,x\n3,\"3\"\n4,\"a\nb\"\n", "--skip-bad", "bad.csv", code=0)
        self.assertEqual(self.read("bad.csv"), 'time,v\n2,x\n4,"a\nb"\n')
        self.assertEqual(self.count("t"), 2)


class Usage(cli.Case):
    def test_wrong_usage_exits_2_and_says_what_is_right(self):
        path = self.write("a.lp", GOOD)
        for words, why in [
                ([], "usage: ringfence COMMAND"),
                (["laod"], 'there is no command "laod"; did you mean load?'),
                (["load", path], "--dir DIR is needed"),
                (["load", "--dir", "d"], "name a file, or -"),
                (["load", "--dri", "d", path], "there is no option --dri; did you mean --dir?"),
                (["load", "--dir", "d", "--batch-rows", "0", path], "between 1 and"),
                (["load", "--dir", "d", "--batch-rows", "x", path], "between 1 and"),
                (["load", "--dir", "d", "--sync", "maybe", path], "one of always, async, off"),
                (["load", "--dir", "d", "--format", "csv", path], "CSV needs --table"),
                (["load", "--dir", "d", "--format", "lp", "--tags", "a", path], "for --format csv"),
                (["load", "--dir", "d", "--table", "t", "--types", "v=INT65", path], "no type \"INT65\""),
                (["load", "--dir", "d", "--acks", path, path], "is an input file"),
                (["load", "--dir", "d", "--skip-bad", path, path], "is an input file"),
                (["load", "--dir"], "--dir needs a value"),
                (["load", "--json=1"], "--json takes no value"),
                (["query", "--dir", "d"], "either --table or --device"),
                (["query", "--dir", "d", "--table", "a", "--device", "b"], "either --table or --device"),
                (["query", "--dir", "d", "--table", "a", "--where", "x"], "tag=value is expected"),
                (["query", "--dir", "d", "--table", "a", "more"], "one word too many"),
                (["trim", "--dir", "d"], "--before TIME is needed"),
        ]:
            self.assertIn(why, self.run_command(*words, code=2).err, words)
        with open(path, encoding="ascii") as f:
            self.assertEqual(f.read(), GOOD)
        self.assertFalse(os.path.exists(self.path("d")))

    def test_bad_times_exit_2(self):
        self.load_text(GOOD)
        for option in ("--from", "--to"):
            for time in ("yesterday", "2026-13-01", "9999-01-01"):
                result = self.run_command("query", "--dir", self.dir, "--table", "m", option, time,
                                          code=2)
                self.assertIn(time, result.err)

    def test_version_is_the_librarys(self):
        self.assertRegex(self.run_command("version").out, r"^ringfence \d+\.\d+\.\d+\n$")


class BadFiles(cli.Case):
    def test_a_missing_file_or_a_directory_exits_3_and_stores_nothing(self):
        good = self.write("a.lp", GOOD)
        self.assertIn("nofile.lp: No such file", self.load(good, "nofile.lp", code=3).err)
        self.assertIn("directory", self.load(good, self.top, code=3).err)
        self.assertEqual(self.run_command("tables", "--dir", self.dir).out, "")

    def test_damaged_gzip_exits_3_after_what_is_whole(self):
        packed = gzip.compress("".join(f"m v={i} {i}\n" for i in range(100000)).encode())
        path = self.write("a.lp.gz", packed[:len(packed) // 2])
        result = self.load("--acks", "acks", path, code=3)
        self.assertIn(f"{path}: the compressed file ends too early", result.err)
        stored = int(self.read("acks").split("\n")[-2])
        self.assertGreater(stored, 0)
        self.assertEqual(self.count("m"), stored)

    def test_a_line_too_long_is_refused_where_it_begins(self):
        path = self.write("a.lp", b"m v=1 1\n" + b"m v=\"" + b"x" * (65 << 20))
        result = self.load("--batch-rows", "1", path, code=3)
        self.assertIn(f"{path}:2: the line is longer than 64 MiB", result.err)
        self.assertEqual(self.count("m"), 1)

    def test_a_batch_larger_than_a_segment_is_refused_with_its_lines(self):
        text = "".join(f'm v="{"x" * 60000}" {i}\n' for i in range(30))
        result = self.load_text(text, code=1)
        self.assertIn("-:1-30: ", result.err)
        self.assertIn("ENTRY_TOO_LARGE", result.err)
        self.assertIn("--batch-rows", result.err)
        self.load_text(text, "--batch-rows", "3")
        self.assertEqual(self.count("m"), 30)

    def test_an_acks_file_that_cannot_be_written_exits_3(self):
        result = self.load_text(GOOD, "--acks", self.path("no", "acks"), code=3)
        self.assertIn("acks", result.err)
        self.assertEqual(self.run_command("tables", "--dir", self.dir).out, "")


if __name__ == "__main__":
    cli.main()
