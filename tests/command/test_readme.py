"""What the README shows is what is there."""

import os
import re
import unittest

import cli


def text_of(*names):
    with open(os.path.join(cli.TOP, *names), encoding="utf-8") as f:
        return f.read()


class Readme(unittest.TestCase):
    def test_its_program_is_the_example(self):
        block = re.search(r"```c\n(.*?)```", text_of("README.md"), re.S)[1]
        self.assertTrue(text_of("examples", "embed.c").endswith(block))

    def test_its_links_lead_somewhere(self):
        for name in ("README.md", os.path.join("examples", "data", "README.md")):
            for link in re.findall(r"\]\(([^)#]+)", text_of(name)):
                path = os.path.join(cli.TOP, os.path.dirname(name), link)
                self.assertTrue(os.path.exists(path), f"{name}: {link}")


if __name__ == "__main__":
    unittest.main()
