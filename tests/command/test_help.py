"""Every command's --help teaches."""

import cli


class Help(cli.Case):
    def test_help_teaches_with_examples(self):
        out = self.run_command("--help").out
        for command in ("load", "query", "delete", "trim", "tables", "stat", "verify", "salvage",
                        "dump", "bench", "profile"):
            self.assertIn(f"\n  {command} ", out)
            text = self.run_command(command, "--help").out
            self.assertTrue(text.startswith(f"usage: ringfence {command} --dir DIR"), text)
            self.assertIn("example", text)
            self.assertIn(f"  ringfence {command} --dir", text)
            self.assertLessEqual(max(len(line) for line in text.split("\n")), 100)
        self.assertIn("exit codes", out)
        self.assertIn("\n  version ", out)
        self.assertEqual(self.run_command("load", "-h").out, self.run_command("load", "--help").out)


if __name__ == "__main__":
    cli.main()
