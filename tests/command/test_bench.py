"""ctest: timeout=300

`bench` and `profile`, typed as a user types: short runs, each option at least once, what they write
read back."""

import json
import os
import pty
import re
import signal
import time
import xml.etree.ElementTree

import cli

SHORT = ["--memory", "16M", "--segment", "1M", "--seconds", "0.8", "--warmup", "0.1"]
STAGES = ("validate order split reserve lease copy checksum publish queue submit device decide "
          "visible wake").split()
PERCENTILES = ["p50", "p90", "p99", "p99.9", "p99.99", "max"]


class Runs(cli.Case):
    def run_json(self, command, *words, reuse=False, code=0):
        """Runs it and returns what --json says."""
        result = self.run_command(command, "--dir", self.dir, *SHORT, *(["--reuse"] if reuse else []),
                                  *words, "--json", "out.json", code=code)
        found = json.loads(self.read("out.json"))
        found["text"] = result.out
        return found

    def check_sums(self, r):
        self.assertGreater(r["batches"], 0)
        self.assertEqual(r["refused"] + r["unknown"], 0)
        self.assertEqual(r["latency_us"]["count"], r["batches"])
        steps = [r["latency_us"][p] for p in PERCENTILES]
        self.assertEqual(steps, sorted(steps))
        self.assertGreater(steps[0], 0)
        self.assertAlmostEqual(r["points_per_second"] * r["seconds"], r["points"], delta=1)
        self.assertGreater(r["cpu_seconds_per_million_points"], 0)


class Bench(Runs):
    def test_a_run_says_what_it_measured(self):
        r = self.run_json("bench", "--in-flight", "8")
        self.check_sums(r)
        self.assertEqual(r["rows"], 1000 * r["batches"])
        self.assertEqual(r["points"], 10 * r["rows"])
        # 8 bytes of time and of each value, and the TAG's 10.
        self.assertEqual(r["bytes_given"], r["rows"] * (8 + 80 + 10))
        self.assertGreater(r["bytes_written_per_byte_given"], 0.7)
        self.assertGreaterEqual(r["batches_per_device_write"], 0.5)
        self.assertEqual(r["options"]["in_flight"], 8)
        self.assertGreater(r["prepared_seconds"], 0)
        self.assertEqual(r["exit_code"], 0)
        for word in ("prepared", "took", "rate", "latency", "p99.99", "device", "cpu", "stalls"):
            self.assertIn(word, r["text"])

    def test_points_end_a_run_and_all_of_them_are_there(self):
        r = self.run_json("bench", "--points", "20000", "--rows", "100", "--columns", "2",
                          "--warmup", "0", "--writers", "2")
        self.assertEqual(r["points"], 20000)
        self.assertEqual(self.count("bench"), r["rows"])
        self.run_command("verify", "--dir", self.dir)

    def test_each_shape_is_stored_as_it_was_made(self):
        for n, words in enumerate((
                ["--types", "BOOLEAN,INT32,INT64,FLOAT,DOUBLE,TEXT,STRING,BLOB,TIMESTAMP,DATE",
                 "--text-bytes", "7", "--values", "random", "--nulls", "0.2", "--seed", "5"],
                ["--devices", "50", "--tablet-devices", "20", "--partitions", "4",
                 "--out-of-order", "0.5"],
                ["--values", "constant", "--sync", "async", "--lanes", "2", "--devices", "9"],
                ["--sync", "off", "--lease", "off", "--log-max", "16M", "--buffered"],
                ["--backend", "posix", "--depth", "2", "--write-wait", "5", "--stall", "0.5"],
        )):
            self.dir = self.path(f"data{n}")
            r = self.run_json("bench", "--points", "50000", "--rows", "200", "--warmup", "0",
                              "--in-flight", "4", *words)
            self.check_sums(r)
            self.assertEqual(self.count("bench"), r["rows"], words)
            if "--devices" in words:
                devices = int(words[words.index("--devices") + 1])
                tags = {row.split(",")[1] for row in self.rows("bench", "--limit", "100000")}
                self.assertEqual(len(tags), devices)
            if "posix" in words:
                self.assertEqual(r["backend"], "posix")

    def test_uring_is_what_was_asked_for(self):
        r = self.run_json("bench", "--backend", "uring", "--model", "tree", "--types", "INT64")
        self.check_sums(r)
        self.assertEqual(r["backend"], "uring")

    def test_an_open_loop_offers_its_rate(self):
        r = self.run_json("bench", "--rate", "200", "--writers", "2", "--rows", "10", "--seconds", "1")
        self.check_sums(r)
        self.assertEqual(r["batches"], 200)

    def test_one_in_flight_is_a_blocking_writer(self):
        r = self.run_json("bench", "--in-flight", "1", "--rows", "1", "--writers", "3")
        self.check_sums(r)

    def test_a_rate_that_is_too_high_shows_in_the_latency(self):
        """A closed loop would hide it: each batch is late by all that came before."""
        r = self.run_json("bench", "--rate", "1000000", "--in-flight", "1", "--rows", "1",
                          "--stall", "0.05", "--warmup", "0")
        self.assertGreater(r["latency_us"]["p50"], 20000)
        self.assertGreater(r["not_begun"], 100000)
        self.assertIn("had not begun", r["text"])
        self.assertGreater(r["stalls"]["slow_batches"], 0)
        self.assertEqual(r["stalls"]["stalls"][-1]["cause"], "earlier")
        self.assertRegex(r["text"], r"stalls +\d+ longer than 50 ms")

    def test_a_run_that_outgrows_the_log_frees_it_and_says_so(self):
        r = self.run_json("bench", "--sync", "async", "--rows", "5000", "--points", "10000000")
        self.assertGreater(r["device_bytes"], 16 << 20)
        self.assertGreater(r["trims"], 0)
        self.assertIn("the run outgrew it", r["text"])
        self.assertEqual(r["refused"], 0)

    def test_fencing_again_and_again_refuses_nothing(self):
        r = self.run_json("bench", "--fence-every", "0.01", "--rows", "10")
        self.assertGreater(r["fences"], 3)
        self.assertGreater(r["batches"], 0)
        self.assertIn("fenced", r["text"])

    def test_a_file_is_replayed(self):
        r = self.run_json("bench", "--replay", os.path.join(cli.DATA, "fleet.lp"), "--rows", "500")
        self.check_sums(r)
        with open(os.path.join(cli.DATA, "fleet.lp"), encoding="utf-8") as f:
            tables = {re.split("[, ]", line)[0] for line in f if line.strip() and line[0] != "#"}
        for table in tables:
            self.assertGreater(self.count(table), 0)
        bad = self.write("bad.lp", "m v=1 1\nm v= 2\n")
        result = self.run_command("bench", "--dir", self.path("other"), "--replay", bad, code=1)
        self.assertIn("bad.lp:2:", result.err)
        self.run_command("bench", "--dir", self.path("other"), "--replay", "nowhere.lp", code=3)
        self.run_command("bench", "--dir", self.path("other"), "--replay",
                         self.write("empty.lp", "# nothing\n"), code=1)
        self.assertFalse(os.path.exists(self.path("other")))

    def test_only_an_earlier_runs_directory_is_used_again(self):
        self.run_json("bench")
        before = self.count("bench")
        self.assertGreater(before, 0)
        result = self.run_command("bench", "--dir", self.dir, *SHORT, code=1)
        self.assertIn("--reuse", result.err)
        self.assertEqual(self.count("bench"), before)
        self.check_sums(self.run_json("bench", "--types", "TEXT,INT64", reuse=True))
        self.check_sums(self.run_json("bench", "--model", "tree", reuse=True))
        self.check_sums(self.run_json("bench", "--model", "tree", "--types", "INT32", "--in-flight",
                                      "1", "--fence-every", "0.02", reuse=True))
        self.load_text("cpu v=1 1\n")
        result = self.run_command("bench", "--dir", self.dir, *SHORT, "--reuse", code=1)
        self.assertIn("nothing there is touched", result.err)
        self.assertEqual(self.count("cpu"), 1)

    def test_a_signal_ends_it_in_order(self):
        process = self.start("bench", "--dir", self.dir, *SHORT, "--seconds", "60", "--json", "o",
                             stdout=-1, stderr=-1)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn(b"rate", out)
        self.assertEqual(json.loads(self.read("o"))["exit_code"], 130)
        self.run_command("verify", "--dir", self.dir)

    def test_progress_is_for_a_terminal_alone(self):
        ours, theirs = pty.openpty()
        process = self.start("bench", "--dir", self.dir, *SHORT, "--seconds", "1.5", "--warmup",
                             "0.5", stdout=-1, stderr=theirs)
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertIn(b"warming up", shown)
        self.assertIn(b"million points/s", shown)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown[-50:])
        quiet = self.run_command("bench", "--dir", self.dir, *SHORT, "--reuse")
        self.assertEqual(quiet.err, "")

    def test_what_cannot_be_written_is_said(self):
        result = self.run_command("bench", "--dir", self.dir, *SHORT, "--json", "no/such/place",
                                  code=3)
        self.assertIn("no/such/place", result.err)
        result = self.run_command("bench", "--dir", "/proc/nothing", *SHORT, code=3)
        self.assertIn("/proc/nothing", result.err)

    def test_json_on_the_standard_output_stands_alone(self):
        out = self.run_command("bench", "--dir", self.dir, *SHORT, "--json", "-").out
        self.assertGreater(json.loads(out)["batches"], 0)


class Profile(Runs):
    def profile(self, *words):
        r = self.run_json("profile", "--trace", "trace.json", "--svg", "stages.svg", *words)
        self.check_sums(r)
        return r

    def check_stages(self, r):
        rows = {row["stage"]: row for row in r["stages_us"]}
        self.assertEqual(list(rows), [*STAGES, "total"])
        for name, row in rows.items():
            self.assertEqual(row["count"], r["batches"], name)
            steps = [row[p] for p in PERCENTILES]
            self.assertEqual(steps, sorted(steps), name)
            self.assertRegex(r["text"], rf"\n{name} +\d")
        for share in ("share", "share_of_slowest"):
            self.assertAlmostEqual(sum(rows[s][share] for s in STAGES), 1, places=6)
        mean = sum(rows[s]["mean"] for s in STAGES)
        self.assertAlmostEqual(mean / rows["total"]["mean"], 1, places=2)
        self.assertEqual(r["slowest"]["batches"], (r["batches"] + 999) // 1000)
        return rows

    def check_trace(self, r, lanes):
        trace = json.loads(self.read("trace.json"))
        events = trace["traceEvents"]
        names = {e["args"]["name"] for e in events if e["ph"] == "M"}
        expected = {f"writer {n}" for n in range(r["options"]["writers"])}
        self.assertEqual(names - {"lane 0"}, expected)
        self.assertEqual("lane 0" in names, lanes)
        spans = [e for e in events if e["ph"] == "X"]
        self.assertTrue({"validate", "copy", "checksum"} <= {e["name"] for e in spans})
        tracks = {}
        for e in spans:
            self.assertGreater(e["dur"], 0)
            self.assertGreaterEqual(e["ts"], 0)
            tracks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["dur"]))
        for track in tracks.values():  # one thing at a time on a thread; a rounding is allowed
            track.sort()
            for (a, took), (b, _) in zip(track, track[1:]):
                self.assertLessEqual(a + took, b + 0.01)
        opened = [e["id"] + e["name"] for e in events if e["ph"] == "b"]
        closed = [e["id"] + e["name"] for e in events if e["ph"] == "e"]
        self.assertEqual(sorted(opened), sorted(closed))
        self.assertIn("batch", {e["name"] for e in events if e["ph"] == "b"})
        return spans

    def check_svg(self):
        root = xml.etree.ElementTree.fromstring(self.read("stages.svg"))
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        text = " ".join(root.itertext())
        for name in STAGES:
            self.assertIn(name, text)
        for e in root.iter():
            for name in ("x", "y", "width", "height", "x1", "y1", "x2", "y2"):
                if name in e.attrib:
                    self.assertTrue(-1 < float(e.attrib[name]) < 1000, e.attrib)

    def test_many_in_flight(self):
        r = self.profile("--in-flight", "16", "--writers", "2", "--trace-batches", "300")
        rows = self.check_stages(r)
        self.assertGreater(rows["device"]["share"], 0)
        self.check_trace(r, lanes=True)
        self.check_svg()
        self.assertIn("ui.perfetto.dev", r["text"])

    def test_a_blocking_writer(self):
        r = self.profile("--in-flight", "1", "--rows", "10")
        rows = self.check_stages(r)
        self.assertGreater(rows["device"]["share"], rows["copy"]["share"])
        self.assertIn("wait", {e["name"] for e in self.check_trace(r, lanes=True)})
        self.check_svg()

    def test_without_waiting_for_the_disk(self):
        r = self.profile("--sync", "async")
        rows = self.check_stages(r)
        self.assertEqual(rows["device"]["max"], 0)
        self.check_trace(r, lanes=True)
        self.check_svg()

    def test_only_profile_has_traces(self):
        result = self.run_command("bench", "--dir", self.dir, "--trace", "t", code=2)
        self.assertIn("--trace", result.err)
        self.run_command("profile", "--dir", self.dir, *SHORT, "--svg", "no/place.svg", code=3)


if __name__ == "__main__":
    cli.main()
