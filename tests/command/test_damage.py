"""verify, dump, salvage: on whole and on damaged directories."""

import json
import os
import random
import re
import shutil

import cli

GOLDEN = os.path.join(cli.TOP, "tests", "golden", "wal-v1")
RECORD = re.compile(r"lane-(\d\d)/(\d{10}) offset (\d+) lsn (\d+) (\w+), covers (\d+), payload (\d+)")


class Damage(cli.Case):
    def fill(self, batches=40, rows=20):
        self.load_text("".join(f'm,k=k{i % 5} v={i}i,s="{"x" * (i % 90)}" {i}\n'
                               for i in range(batches * rows)), "--batch-rows", str(rows))

    def dump(self, *words, code=0):
        return self.run_command("dump", "--dir", self.dir, *words, code=code).out

    def records(self, code=0):
        """(file, offset, type, covered, payload) of each record that dump walks."""
        found = []
        for line in self.dump(code=code).splitlines():
            m = RECORD.match(line)
            if m and "behind the end" not in line:
                found.append((f"lane-{m[1]}/{m[2]}", int(m[3]), m[5], int(m[6]), int(m[7])))
        return found

    def flip(self, name, offset, mask=0x10):
        with open(os.path.join(self.dir, name), "r+b") as f:
            f.seek(offset)
            byte = f.read(1)[0]
            f.seek(offset)
            f.write(bytes([byte ^ mask]))

    def verify(self, code):
        return self.run_command("verify", "--dir", self.dir, code=code).out

    def test_a_whole_directory_is_clean_and_dump_shows_every_batch(self):
        self.fill()
        self.assertEqual(self.verify(0), "clean: it was closed in order\n")
        out = self.dump("--rows")
        self.assertIn("lane-00: ", out)
        self.assertTrue(out.endswith(", clean\n"))
        data = [r for r in self.records() if r[2] == "data"]
        self.assertEqual(len(data), 40)
        rows = re.findall(r"^      (\S+) 2=(\d+) 3=", out, re.M)
        self.assertEqual(sorted(int(v) for _, v in rows), list(range(800)))
        for offset, record in zip(self.offsets_by_covering(), self.records()):
            self.assertEqual(offset, record[1])
        self.assertEqual(json.loads(self.run_command("verify", "--dir", self.dir, "--json").out),
                         {"dir": self.dir, "faults": [], "verdict": "clean"})

    def offsets_by_covering(self):
        """Where records must lie when each begins where the one before it ends."""
        at, name = None, None
        for record in self.records():
            if record[0] != name:
                name, at = record[0], record[1]
            yield at
            at += record[3]

    def test_dump_shows_deletes_and_only_the_lane_asked_for(self):
        self.fill(2)
        self.run_command("delete", "--dir", self.dir, "--table", "m", "--where", "k=k1", "--from", "3")
        self.assertRegex(self.dump(), r"delete, covers \d+.*\n  table 1: 1970-01-01T00:00:00.000000003Z to")
        self.assertIn('    device ("k1")\n', self.dump("--payloads"))
        self.assertIn("there are 1 lanes", self.run_command("dump", "--dir", self.dir, "--lane", "3",
                                                            code=2).err)

    def test_a_flipped_payload_is_a_fault_with_its_place_and_salvage_saves_the_rest(self):
        self.fill()
        data = [r for r in self.records() if r[2] == "data"]
        name, offset, _, _, payload = data[7]
        self.flip(name, offset + 64 + payload // 2)
        out = self.verify(1)
        self.assertIn("fault: ", out)
        self.assertIn(name, out)
        self.assertIn(str(offset), out)
        self.assertIn("damaged", out)
        dumped = self.dump(code=1)
        self.assertIn(f"fault: {name} offset {offset}", dumped)
        self.assertEqual(dumped.count(" data, "), 40)
        self.assertIn("CORRUPT", self.run_command("query", "--dir", self.dir, "--table", "m", code=1).err)
        before = self.bytes_of(self.dir)
        result = self.run_command("salvage", "--dir", self.dir, "--to", self.path("saved"))
        self.assertIn("lost: ", result.out)
        self.assertIn(name, result.out)
        self.assertRegex(result.out, r"saved 780 rows in \d+ batches to .*saved; lost \d+ bytes in 1 places")
        self.assertEqual(self.bytes_of(self.dir), before)
        self.dir = self.path("saved")
        self.assertEqual(self.verify(0), "clean: it was closed in order\n")
        times = [int(r.split(",")[0]) for r in self.rows("m", "--times", "int")]
        self.assertEqual(sorted(times), [t for t in range(800) if not 140 <= t < 160])

    def bytes_of(self, top):
        found = {}
        for folder, _, names in os.walk(top):
            for name in names:
                with open(os.path.join(folder, name), "rb") as f:
                    found[os.path.join(folder, name)] = f.read()
        return found

    def test_salvage_of_a_whole_directory_loses_nothing_and_never_overwrites(self):
        self.fill(5)
        rows = self.query("m")
        result = self.run_command("salvage", "--dir", self.dir)
        self.assertIn("lost 0 bytes in 0 places", result.out)
        self.run_command("salvage", "--dir", self.dir, code=3)
        self.dir += ".salvaged"
        self.assertEqual(self.query("m"), rows)

    def test_a_torn_tail_is_cut_not_damage(self):
        self.fill(10)
        name, offset, kind, _, _ = [r for r in self.records() if r[2] != "pad"][-1]
        self.assertEqual(kind, "close")
        with open(os.path.join(self.dir, name), "r+b") as f:
            f.seek(offset)
            f.write(bytes(8192))
        self.assertIn("cut: ", self.verify(0))
        self.assertIn("not closed in order", self.dump())
        self.assertEqual(self.count("m"), 200)

    def test_dump_and_verify_agree_whatever_bit_is_flipped(self):
        seed = int(os.environ.get("RF_SEED", random.randrange(2**32)))
        print(f"RF_SEED={seed}")
        chance = random.Random(seed)
        self.fill(12)
        used = max(offset + covered for _, offset, _, covered, _ in self.records())
        whole, codes = self.path("whole"), []
        shutil.copytree(self.dir, whole)
        for _ in range(60):
            name = chance.choice(["manifest", "lane-00/0000000001"])
            size = os.path.getsize(os.path.join(self.dir, name))
            offset = chance.randrange(min(size, used + 4096))
            self.flip(name, offset, 1 << chance.randrange(8))
            dumped = self.run_command("dump", "--dir", self.dir, code=None).code
            verified = self.run_command("verify", "--dir", self.dir, code=None).code
            if name != "manifest":
                self.assertEqual(dumped, verified, f"{name} offset {offset}")
            self.assertNotEqual(verified, 0 if name == "manifest" else None)
            codes.append(verified)
            shutil.copyfile(os.path.join(whole, name), os.path.join(self.dir, name))
        self.assertIn(1, codes)

    def test_a_missing_segment_is_a_fault(self):
        self.load_text("".join(f'm v="{"x" * 4000}" {i}\n' for i in range(900)), "--batch-rows", "50")
        names = sorted(n for n in os.listdir(os.path.join(self.dir, "lane-00")) if n.isdigit())
        self.assertGreaterEqual(len(names), 4)
        os.unlink(os.path.join(self.dir, "lane-00", names[1]))
        self.assertIn("fault: ", self.verify(1))
        self.assertIn("a gap between segments", self.dump(code=1))

    def test_the_golden_directory_is_walked_to_its_end(self):
        # Its batches hold a few letters each: the log's own parts are what is golden there.
        shutil.copytree(GOLDEN, self.dir)
        out = self.dump(code=1)
        kinds = [r[2] for r in self.records(code=1)]
        self.assertEqual(set(kinds), {"data", "delete", "void", "pad", "fence", "abort", "mark", "close"})
        for part in ("lane-00/0000000002 offset 8448 lsn 2105600 fence", "void from 2105344",
                     "offset 12288 cut: discarded up to offset 20480", "void 2105728",
                     "the segment before it ends at 3153920", "17 records, 0 behind the end"):
            self.assertIn(part, out)
        for line in out.splitlines():
            if line.startswith("fault: "):
                self.assertRegex(line, r"(data|delete) payload: \d+ bytes, too few$")


if __name__ == "__main__":
    cli.main()
