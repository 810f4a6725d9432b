"""The samples under examples/data, loaded and read back."""

import csv
import hashlib
import os
import subprocess
import sys

import cli


def sample(name):
    return os.path.join(cli.DATA, name)


class Samples(cli.Case):
    def test_the_real_series_are_as_their_readme_says(self):
        with open(sample("README.md"), encoding="utf-8") as f:
            readme = f.read()
        for name in ("mauna-loa-co2-weekly.csv", "sf-temps-hourly.csv"):
            with open(sample(name), "rb") as f:
                digest = hashlib.sha256(f.read()).hexdigest()
            self.assertIn(f"{digest}  {name}", readme)

    def test_the_fleet_is_what_its_script_makes(self):
        made = subprocess.run([sys.executable, sample("make_fleet.py")], capture_output=True,
                              check=True).stdout
        with open(sample("fleet.lp"), "rb") as f:
            self.assertEqual(made, f.read())

    def test_co2_comes_back_with_its_gaps_and_its_times_before_1970(self):
        result = self.load("--table", "co2", "--time", "date", "--time-format", "%Y%m%d",
                           sample("mauna-loa-co2-weekly.csv"))
        self.assertIn("2284 rows, 2225 points", result.out)
        with open(sample("mauna-loa-co2-weekly.csv"), encoding="ascii") as f:
            given = [(row["date"], row["co2"]) for row in csv.DictReader(f)]
        got = [row.split(",") for row in self.rows("co2")]
        self.assertEqual(len(got), len(given))
        for (date, value), (time, read) in zip(given, got):
            self.assertEqual(time, f"{date[:4]}-{date[4:6]}-{date[6:]}T00:00:00Z")
            self.assertEqual(read and float(read), value and float(value))
        self.assertEqual(self.count("co2", "--to", "1970-01-01"), 614)

    def test_temperatures_come_back_though_the_time_is_the_second_column(self):
        self.load("--table", "temps", "--time", "date", "--time-format", "%Y/%m/%d %H:%M:%S",
                  "--batch-rows", "500", "--writers", "4", sample("sf-temps-hourly.csv"))
        with open(sample("sf-temps-hourly.csv"), encoding="ascii") as f:
            given = list(csv.reader(f))[1:]
        got = [row.split(",") for row in self.rows("temps")]
        self.assertEqual(len(got), 8759)
        for (temp, date), (time, value) in zip(given, got):
            self.assertEqual(time, date.replace("/", "-").replace(" ", "T") + "Z")
            self.assertEqual(float(value), float(temp))
        self.assertEqual(self.count("temps", "--from", "2010-03-14T02:30:00Z",
                                    "--to", "2010-03-14T04:00:00Z"), 0)

    def test_the_fleet_comes_back_as_the_last_line_about_each_row_says(self):
        self.load(sample("fleet.lp"), "--batch-rows", "100", "--writers", "3")
        keys = {}
        with open(sample("fleet.lp"), encoding="utf-8") as f:
            for line in f:
                if not line.startswith("#"):
                    head, _, time = line.strip().rpartition(" ")
                    tags = head.replace("\\ ", "\0").split(" ")[0]
                    keys.setdefault(tags.split(",")[0], set()).add((tags, time))
        for table in ("van", "depot"):
            self.assertEqual(self.count(table), len(keys[table]))
        again = self.query("van")
        self.load(sample("fleet.lp"))
        self.assertEqual(self.query("van"), again)
        self.assertEqual(self.rows("depot", "--where", "site=St. P\u00f6lten", "--limit", "1")[0][:20],
                         "2025-12-01T00:00:00Z")


if __name__ == "__main__":
    cli.main()
