#!/usr/bin/env python3
"""Makes fleet.lp: a day of a fleet of delivery vans, in line protocol.

    make_fleet.py [--seed N] [--lines N] > fleet.lp

What makes it like the real thing: tags that are missing, fields that are not always sent, rows that
come late, rows that are sent twice, text, booleans, names with spaces in them. The same seed makes
the same bytes on every machine: only random.random() is drawn, whose sequence Python keeps.
"""

import argparse
import random
import sys

START_S = 1764547200  # 2025-12-01T00:00:00Z
SITES = ["Graz", "Linz", "St. P\u00f6lten", "Wien Nord"]
NOTES = ["delivered", "nobody at home", 'left with "Mr. K"', "road closed, detour", "r\u00e9clam\u00e9"]


class Fleet:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, p):
        return self.random.random() < p

    def below(self, n):
        return int(self.random.random() * n)

    def around(self, middle, spread, digits):
        return round(middle + (self.random.random() * 2 - 1) * spread, digits)


def escaped(name):
    return "".join("\\" + c if c in ',= "\\' else c for c in name)


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def van_tags(fleet, van):
    tags = [f"van=v{van:02d}"]
    if not fleet.chance(0.04):  # a sender that has lost its configuration names no site
        tags.append("site=" + escaped(SITES[van % len(SITES)]))
    return tags


def van_fields(fleet, van, minute):
    driving = fleet.chance(0.6)
    fields = [f"driving={'true' if driving else 'false'}"]
    if driving:
        fields.append(f"speed={fleet.around(52, 40, 1)}")
    if not fleet.chance(0.15):
        fields.append(f"fuel={fleet.around(60 - minute / 40, 0.4, 2)}")
    if not fleet.chance(0.3):
        fields.append(f"odometer={120000 + van * 1000 + minute * 3 // 4}i")
    if fleet.chance(0.1):
        fields.append("note=" + quoted(NOTES[fleet.below(len(NOTES))]))
    return fields


def depot_line(fleet, site, minute):
    fields = [f"temperature={fleet.around(4, 3, 2)}", f"waiting={fleet.below(30)}i"]
    if fleet.chance(0.5):
        fields.append(f"gate_open={'t' if fleet.chance(0.5) else 'f'}")
    time = (START_S + minute * 60) * 10**9
    return f"depot,site={escaped(SITES[site])} {','.join(fields)} {time}"


def van_line(fleet, van, minute):
    time = (START_S + minute * 60) * 10**9 + fleet.below(1000) * 10**6
    tags, fields = van_tags(fleet, van), van_fields(fleet, van, minute)
    return f"van,{','.join(tags)} {','.join(fields)} {time}"


def lines_of(fleet, count):
    """Lines in the order in which they arrive."""
    late = []
    made = 0
    minute = 0
    while made < count:
        for van in range(12):
            line = van_line(fleet, van, minute)
            if fleet.chance(0.05):
                late.append((minute + 5 + fleet.below(120), line))
                continue
            yield line
            made += 1
            if fleet.chance(0.02):  # sent again, since the answer was lost
                yield line
                made += 1
        if minute % 5 == 0:
            for site in range(len(SITES)):
                yield depot_line(fleet, site, minute)
                made += 1
        while late and late[0][0] <= minute:
            yield late.pop(0)[1]
            made += 1
        minute += 1
        if minute % 60 == 0:
            yield f"# hour {minute // 60}"
            made += 1
    for _, line in late:
        yield line


def main():
    parser = argparse.ArgumentParser(description="Writes a fleet's day as line protocol.")
    parser.add_argument("--seed", type=int, default=20251201)
    parser.add_argument("--lines", type=int, default=5000)
    options = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    for line in lines_of(Fleet(options.seed), options.lines):
        print(line)


if __name__ == "__main__":
    main()
