# ctest: concurrent
"""load: what is stored, whatever way it comes in."""

import gzip
import json
import os
import random
import threading

import cli

LP = "cpu,host=h{0} usage={1}.5,cores=8i,up=true,note=\"n {1}\" {1}\n"


class Load(cli.Case):
    def test_line_protocol_comes_back_as_csv(self):
        self.load_text('cpu,host=h1,rack=r\\ 7 usage=0.64,cores=8i,n=9u,up=t,note="say \\"hi\\", you" 5\n'
                       "# a comment\n\n"
                       "cpu,host=h2 usage=-1e-3 1000000007\r\n")
        self.assertEqual(self.query("cpu"),
                         "time,host,rack,usage,cores,n,up,note\n"
                         '1970-01-01T00:00:00.000000005Z,h1,r 7,0.64,8,9,true,"say ""hi"", you"\n'
                         "1970-01-01T00:00:01.000000007Z,h2,,-0.001,,,,\n")
        self.assertEqual(self.run_command("tables", "--dir", self.dir).out,
                         "cpu\n"
                         "  host   TAG    STRING\n"
                         "  rack   TAG    STRING\n"
                         "  usage  FIELD  DOUBLE\n"
                         "  cores  FIELD  INT64\n"
                         "  n      FIELD  INT64\n"
                         "  up     FIELD  BOOLEAN\n"
                         "  note   FIELD  STRING\n")

    def test_what_query_writes_load_reads(self):
        self.load_text('t,a=x,b=y\\,z s="",t="two\nlines",d=0.1,i=-5i,o=f 1\n'.replace("two\nlines", "x"))
        self.load_text('t,b=q s="  blanks  ",t="quote \\"",d=1e300,i=9223372036854775807i 2\n')
        csv = self.write("t.csv", self.query("t"))
        first, self.dir = self.query("t"), self.path("again")
        self.load("--table", "t", "--tags", "a,b", "--types", "i=INT64", csv)
        self.assertEqual(self.query("t"), first)

    def test_every_int64_time_is_taken(self):
        low, high = -2**63, 2**63 - 1
        self.load_text(f"m v={low}i {low}\nm v={high}i {high}\nm v=0i 0\n")
        self.assertEqual(self.rows("m", "--times", "int"),
                         [f"{low},{low}", "0,0", f"{high},{high}"])
        self.assertEqual(self.rows("m")[0], f"1677-09-21T00:12:43.145224192Z,{low}")
        self.assertEqual(self.count("m", "--from", str(high)), 1)
        self.assertEqual(self.count("m", "--to", str(high)), 2)
        self.assertEqual(self.count("m", "--to", str(low)), 0)

    def test_csv_types_are_inferred_or_as_asked_for(self):
        path = self.write("a.csv", "when,n,flag,word,nan,big\n"
                                   "1,1.5,true,x,NaN,7\n2,,FALSE,,-inf,\n3,2,false,\"\",inf,-9\n")
        self.load("--table", "t", "--time", "when", "--types", "big=INT32", path)
        self.assertEqual(self.query("t", "--times", "int"),
                         "time,n,flag,word,nan,big\n"
                         "1,1.5,true,x,NaN,7\n2,,false,,-inf,\n3,2,false,\"\",inf,-9\n")
        # A second file is read by the table's types: 12 is a word there.
        self.load("--table", "t", "--time", "when", self.write("b.csv", "when,word\n4,12\n"))
        self.assertEqual(self.rows("t", "--times", "int", "--columns", "word", "--from", "4"), ["4,12"])

    def test_every_csv_type_comes_back(self):
        text = ("time,b,i,l,f,d,t,s,z,y,x\n"
                "5,true,-2147483648,-9223372036854775808,0.1,0.1,text,\"a, b\","
                "2026-01-01T00:00:00.5Z,2024-02-29,0x00ff10\n")
        types = "b=BOOLEAN,i=INT32,l=INT64,f=FLOAT,d=DOUBLE,t=TEXT,s=STRING,z=TIMESTAMP,y=DATE,x=BLOB"
        self.load("--table", "t", "--types", types, self.write("a.csv", text))
        self.assertEqual(self.query("t", "--times", "int").split("\n")[1],
                         '5,true,-2147483648,-9223372036854775808,0.1,0.1,text,"a, b",'
                         "1767225600500000000,2024-02-29,0x00ff10")
        self.assertEqual(json.loads(self.query("t", "--format", "json")),
                         {"time": "1970-01-01T00:00:00.000000005Z", "b": True, "i": -2**31,
                          "l": -2**63, "f": 0.1, "d": 0.1, "t": "text", "s": "a, b",
                          "z": "2026-01-01T00:00:00.500Z", "y": "2024-02-29", "x": "0x00ff10"})

    def test_a_blob_of_20_mib_is_taken(self):
        blob = random.Random(20).randbytes(20 << 20).hex()
        path = self.write("blob.csv", f"time,x\n1,0x{blob}\n")
        self.load("--table", "t", "--types", "x=BLOB", path, small=False)
        self.assertEqual(self.rows("t", "--times", "int"), [f"1,0x{blob}"])

    def test_gzip_stdin_and_several_files_are_all_one_input(self):
        lines = [LP.format(i % 3, i) for i in range(300)]
        plain = self.write("a.lp", "".join(lines[:100]))
        packed = self.write("b.lp.gz", gzip.compress("".join(lines[100:150]).encode()) +
                            gzip.compress("".join(lines[150:200]).encode()))
        self.load("--batch-rows", "7", "--acks", "acks", plain, packed, "-",
                  stdin=gzip.compress("".join(lines[200:]).encode()))
        self.assertEqual(self.count("cpu"), 300)
        self.assertEqual(self.read("acks").split("\n")[-2], "300")

    def test_loading_twice_changes_nothing(self):
        text = "".join(LP.format(i % 5, i) for i in range(1000))
        self.load_text(text, "--batch-rows", "90")
        once = self.query("cpu")
        self.load_text(text, "--batch-rows", "110", "--writers", "4")
        self.assertEqual(self.query("cpu"), once)

    def test_the_last_line_about_a_cell_wins_however_many_writers_there_are(self):
        # A long line is parsed while the short one behind it would be ready to overtake.
        wide = ",".join(f"f{i}={i}i" for i in range(3000))
        self.load_text("".join(f"m v=1i,{wide} {i}\nm v=2i {i}\n" for i in range(60)),
                       "--batch-rows", "1", "--writers", "8", "--memory", "64M", "--segment", "4M")
        self.assertEqual(self.rows("m", "--columns", "v", "--times", "int"),
                         [f"{i},2" for i in range(60)])

    def test_a_new_directory_counts_in_the_unit_of_its_first_load(self):
        self.load_text("m v=1 1764547200000\n", "--time-unit", "ms")
        self.assertEqual(self.rows("m"), ["2025-12-01T00:00:00Z,1"])
        self.load_text("m v=2 1764547201000000000\n")
        self.assertEqual(self.rows("m", "--times", "int"), ["1764547200000,1", "1764547201000,2"])
        result = self.load_text("m v=2 1764547201000000001\n", code=1)
        self.assertIn("-:1:7: the time 1764547201000000001 is not a whole number of ms", result.err)

    def test_every_sync_mode_stores_everything_by_the_end(self):
        for sync in ("always", "async", "off"):
            self.dir = self.path("data-" + sync)
            self.load_text("".join(LP.format(1, i) for i in range(500)), "--sync", sync,
                           "--batch-rows", "10", "--acks", "acks-" + sync)
            self.assertEqual(self.count("cpu"), 500)
            self.assertEqual(self.read("acks-" + sync).split("\n")[-2], "500")

    def test_acks_grow_and_count_all_lines(self):
        self.load_text("# head\n" + "".join(LP.format(1, i) for i in range(25)) + "\n\n",
                       "--batch-rows", "10", "--acks", "acks")
        self.assertEqual(self.read("acks"), "10\n20\n28\n")

    def test_an_empty_input_makes_an_empty_directory(self):
        result = self.load_text("")
        self.assertIn("0 rows, 0 points in 0 batches", result.out)
        self.assertEqual(self.run_command("tables", "--dir", self.dir).out, "")

    def test_the_summary_says_where_and_what_next(self):
        out = self.load_text(LP.format(1, 1)).out
        for part in ("1 rows, 4 points in 1 batches", "rows/s", "p50", "p99", "max", self.dir,
                     "ringfence query --dir"):
            self.assertIn(part, out)
        result = self.load_text(LP.format(1, 2), "--json")
        summary = json.loads(result.out)
        self.assertEqual((summary["rows"], summary["points"], summary["batches"],
                          summary["lines_stored"], summary["exit_code"]), (1, 4, 1, 1, 0))
        for key in ("seconds", "rows_per_second", "latency_p50_ms", "latency_p99_ms"):
            self.assertGreater(summary[key], 0)

    def test_a_pipe_that_is_slow_is_loaded_as_it_comes(self):
        load = self.start("load", "--dir", self.dir, *cli.SMALL, "--batch-rows", "2", "--acks", "acks",
                          "-", stdin=-1, stdout=-1)
        load.stdin.write((LP.format(1, 1) + LP.format(1, 2)).encode())
        load.stdin.flush()
        acked = threading.Event()
        for _ in range(1000):
            if os.path.exists(self.path("acks")) and self.read("acks") == "2\n":
                break
            acked.wait(0.01)
        self.assertEqual(self.read("acks"), "2\n")
        load.communicate(LP.format(1, 3).encode())
        self.assertEqual(load.returncode, 0)
        self.assertEqual(self.count("cpu"), 3)

    def test_the_back_end_of_threads_does_the_same(self):
        text = "".join(LP.format(i % 5, i) for i in range(400))
        self.load_text(text, "--backend", "posix", "--batch-rows", "10", "--writers", "4")
        posix = self.query("cpu")
        self.dir = self.path("other")
        self.load_text(text, "--backend", "auto")
        self.assertEqual(self.query("cpu"), posix)

    def test_a_device_of_the_tree_model_is_read_by_its_path(self):
        self.load_text("cpu v=1 1\n")
        result = self.run_command("query", "--dir", self.dir, "--device", "root.db.d1", code=1)
        self.assertRegex(result.err, "NO_DATABASE|NO_TABLE")

    def test_wide_and_many_tables_in_one_batch(self):
        fields = ",".join(f"f{i}={i}i" for i in range(2000))
        text = f"wide {fields} 1\n" + "".join(f"t{i} v={i}i 1\n" for i in range(500))
        self.load_text(text)
        self.assertEqual(self.rows("wide", "--columns", "f1999,f0"), [
            "1970-01-01T00:00:00.000000001Z,1999,0"])
        self.assertEqual(len(self.run_command("tables", "--dir", self.dir, "--json").out.splitlines()), 501)


if __name__ == "__main__":
    cli.main()
