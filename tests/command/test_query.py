"""query, delete, trim, tables, stat: what is read is what was asked for."""

import json
import os

import cli

DAY = 86400 * 10**9


class Query(cli.Case):
    def setUp(self):
        super().setUp()
        self.load_text("".join(f"cpu,host=h{i % 3},rack=r{i % 2} a={i}i,b={i / 4},c=\"x{i}\" {i}\n"
                               for i in range(12)) + "cpu a=99i 3\n")

    def test_rows_come_by_tags_then_time(self):
        rows = [r.split(",") for r in self.rows("cpu", "--times", "int")]
        self.assertEqual(len(rows), 13)
        keys = [(r[1], r[2], int(r[0])) for r in rows]
        self.assertEqual(sorted(keys), sorted(set(keys)))
        devices = [k[:2] for k in keys]
        for device in set(devices):
            first = devices.index(device)
            count = devices.count(device)
            self.assertEqual(set(devices[first:first + count]), {device})
            times = [k[2] for k in keys[first:first + count]]
            self.assertEqual(times, sorted(times))

    def test_where_takes_rows_with_these_tags_alone(self):
        self.assertEqual(self.rows("cpu", "--where", "host=h1", "--where", "rack=r1",
                                   "--times", "int", "--columns", "a"),
                         ["1,h1,r1,1", "7,h1,r1,7"])
        self.assertEqual(self.rows("cpu", "--where", "host=", "--times", "int", "--columns", "a"),
                         ["3,,,99"])
        self.assertEqual(self.count("cpu", "--where", "host=nobody"), 0)

    def test_columns_are_in_the_order_asked_for(self):
        out = self.query("cpu", "--columns", "c,a", "--where", "host=h0", "--limit", "1", "--times", "int")
        self.assertEqual(out, "time,host,rack,c,a\n0,h0,r0,x0,0\n")
        out = self.query("cpu", "--columns", "a,host", "--where", "host=h0", "--limit", "1")
        self.assertEqual(out.split("\n")[0], "time,host,rack,a")

    def test_from_is_inclusive_and_to_exclusive(self):
        self.assertEqual(self.count("cpu", "--from", "4", "--to", "7"), 3)
        self.assertEqual(self.count("cpu", "--from", "1970-01-01T00:00:00.000000004Z",
                                    "--to", "1970-01-01T01:00:00.000000007+01:00"), 3)
        self.assertEqual(self.count("cpu", "--from", "7", "--to", "7"), 0)
        self.assertEqual(self.query("cpu", "--from", "7", "--to", "4"), "time,host,rack,a,b,c\n")

    def test_limit_and_count(self):
        self.assertEqual(len(self.rows("cpu", "--limit", "5")), 5)
        self.assertEqual(self.rows("cpu", "--limit", "0"), [])
        self.assertEqual(self.query("cpu", "--count"), "13\n")
        self.assertEqual(self.query("cpu", "--count", "--limit", "4"), "4\n")

    def test_descending_is_newest_first_within_a_device(self):
        times = [int(r.split(",")[0]) for r in self.rows("cpu", "--where", "host=h0", "--where",
                                                         "rack=r0", "--times", "int", "--descending")]
        self.assertEqual(times, [6, 0])

    def test_json_is_one_object_a_line(self):
        lines = self.query("cpu", "--format", "json", "--where", "host=h2").splitlines()
        rows = [json.loads(line) for line in lines]
        self.assertEqual(len(rows), 4)
        self.assertEqual(list(rows[0]), ["time", "host", "rack", "a", "b", "c"])
        self.assertEqual(rows[0]["time"], "1970-01-01T00:00:00.000000002Z")
        self.assertEqual(rows[0]["b"], 0.5)
        row = json.loads(self.query("cpu", "--format", "json", "--where", "host=", "--times", "int"))
        self.assertEqual(row, {"time": 3, "host": None, "rack": None, "a": 99, "b": None, "c": None})

    def test_text_that_needs_it_is_quoted_and_no_other(self):
        path = self.write("t.csv", 'time,s\n1,plain\n2,"a,b"\n3,"q""q"\n4,"two\nlines"\n5,""\n6,\n'
                                   '7," blank"\n8,in side\n')
        self.load("--table", "t", path)
        self.assertEqual(self.query("t", "--times", "int"),
                         'time,s\n1,plain\n2,"a,b"\n3,"q""q"\n4,"two\nlines"\n5,""\n6,\n7," blank"\n'
                         "8,in side\n")
        rows = [json.loads(x) for x in self.query("t", "--format", "json").splitlines()]
        self.assertEqual([r["s"] for r in rows],
                         ["plain", "a,b", 'q"q', "two\nlines", "", None, " blank", "in side"])

    def test_unknown_names_exit_1(self):
        for words in (["--table", "nothing"], ["--table", "cpu", "--columns", "nothing"],
                      ["--table", "nothing", "--count"], ["--table", "nothing", "--from", "1", "--to", "1"],
                      ["--device", "root.db.d1"]):
            result = self.run_command("query", "--dir", self.dir, *words, code=1)
            self.assertEqual(result.out, "")
            self.assertNotEqual(result.err, "")

    def test_nothing_but_data_is_on_stdout(self):
        result = self.run_command("query", "--dir", self.dir, "--table", "cpu")
        self.assertEqual(result.err, "")
        self.assertTrue(result.out.startswith("time,host,rack,a,b,c\n"))

    def test_a_full_standard_output_exits_3(self):
        with open("/dev/full", "wb") as full:
            load = self.start("query", "--dir", self.dir, "--table", "cpu", stdout=full, stderr=-1)
            self.assertIn(b"standard output", load.communicate()[1])
        self.assertEqual(load.returncode, 3)


class Delete(cli.Case):
    def setUp(self):
        super().setUp()
        self.load_text("".join(f"cpu,host=h{i % 2} a={i}i,b={i}i {i}\n" for i in range(10)))

    def delete(self, *words, code=0):
        return self.run_command("delete", "--dir", self.dir, *words, code=code)

    def test_a_range_of_one_device(self):
        self.assertIn("deleted 2 rows", self.delete("--table", "cpu", "--where", "host=h0", "--from", "2",
                                                    "--to", "6").out)
        self.assertEqual([r.split(",")[0] for r in self.rows("cpu", "--times", "int", "--where", "host=h0")],
                         ["0", "6", "8"])
        self.assertEqual(self.count("cpu", "--where", "host=h1"), 5)

    def test_columns_alone(self):
        self.delete("--table", "cpu", "--columns", "b", "--from", "9")
        self.assertEqual(self.rows("cpu", "--times", "int", "--from", "9"), ["9,h1,9,"])

    def test_all_and_what_is_written_later_stays(self):
        self.delete("--table", "cpu")
        self.assertEqual(self.count("cpu"), 0)
        self.load_text("cpu,host=h0 a=1i 3\n")
        self.assertEqual(self.rows("cpu", "--times", "int"), ["3,h0,1,"])

    def test_an_empty_range_deletes_nothing(self):
        self.assertIn("deleted 0 rows", self.delete("--table", "cpu", "--from", "5", "--to", "5").out)
        self.assertEqual(self.count("cpu"), 10)

    def test_an_unknown_table_exits_1(self):
        self.assertIn("NO_TABLE", self.delete("--table", "nothing", code=1).err)


class Trim(cli.Case):
    def test_segments_whose_rows_are_all_older_are_freed(self):
        for day in range(6):
            text = "".join(f'm,k=a v="{"x" * 3000}" {day * DAY + i}\n' for i in range(300))
            self.load_text(text, "--batch-rows", "50")
        before = json.loads(self.run_command("stat", "--dir", self.dir, "--json").out)
        out = json.loads(self.run_command("trim", "--dir", self.dir, "--before", "1970-01-04",
                                          "--json").out)
        self.assertGreater(out["bytes_freed"], 0)
        self.assertEqual(out["position"], before["oldest_position"] + out["bytes_freed"])
        self.assertEqual(self.count("m", "--from", "1970-01-04"), 900)
        self.assertLess(self.count("m", "--to", "1970-01-04"), 900)
        again = json.loads(self.run_command("trim", "--dir", self.dir, "--before", "1970-01-04",
                                            "--json").out)
        self.assertEqual(again["bytes_freed"], 0)

    def test_nothing_older_frees_nothing(self):
        self.load_text("m v=1 100\n")
        self.assertIn("freed 0 MiB", self.run_command("trim", "--dir", self.dir, "--before", "5").out)
        self.assertEqual(self.count("m"), 1)


class Stat(cli.Case):
    def test_it_says_what_the_directory_was_made_with_and_holds(self):
        self.load_text("m,k=a v=1 5\nm,k=b v=1 5\nn v=1i 5\n", "--time-unit", "us")
        stat = json.loads(self.run_command("stat", "--dir", self.dir, "--json").out)
        for key, value in (("time_unit", "us"), ("lanes", 1), ("segment_bytes", 1 << 20),
                           ("tables", 2), ("columns", 3), ("devices", 3), ("opened_clean", True)):
            self.assertEqual(stat[key], value, key)
        text = self.run_command("stat", "--dir", self.dir).out
        for part in ("time unit us", "clean", "2 tables, 3 columns, 3 devices"):
            self.assertIn(part, text)

    def test_tables_as_json(self):
        self.load_text("m,k=a v=1 5\n")
        self.assertEqual(json.loads(self.run_command("tables", "--dir", self.dir, "--json").out)["columns"],
                         [{"name": "k", "category": "TAG", "type": "STRING"},
                          {"name": "v", "category": "FIELD", "type": "DOUBLE"}])

    def test_reading_changes_no_byte(self):
        self.load_text("m,k=a v=1 5\n")

        def everything():
            found = {}
            for folder, _, names in os.walk(self.dir):
                for name in names:
                    path = os.path.join(folder, name)
                    with open(path, "rb") as f:
                        found[path] = (f.read(), os.stat(path).st_mtime_ns)
            return found

        before = everything()
        self.query("m")
        for command in ("tables", "stat"):
            self.run_command(command, "--dir", self.dir)
        self.assertEqual(everything(), before)


if __name__ == "__main__":
    cli.main()
