"""docs/format/wal.md is enough to write a reader: this one was written from the page alone, shares no
code with the library, and must find in tests/golden/wal-v1 what the library finds."""

import os
import struct

import tree

M64 = (1 << 64) - 1
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
       0x27D4EB2F165667C5)
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")


def u16(b, at):
    return struct.unpack_from("<H", b, at)[0]


def u32(b, at):
    return struct.unpack_from("<I", b, at)[0]


def u64(b, at):
    return struct.unpack_from("<Q", b, at)[0]


# ---- XXH3-64 with a seed ----

def fold(a, b):
    product = a * b
    return (product & M64) ^ (product >> 64)


def avalanche(h):
    h ^= h >> 37
    h = h * 0x165667919E3779F9 & M64
    return h ^ h >> 32


def swap64(x):
    return int.from_bytes(x.to_bytes(8, "little"), "big")


def short(b, seed):
    n = len(b)
    if n > 8:
        low = (u64(SECRET, 24) ^ u64(SECRET, 32)) + seed & M64
        high = (u64(SECRET, 40) ^ u64(SECRET, 48)) - seed & M64
        low ^= u64(b, 0)
        high ^= u64(b, n - 8)
        return avalanche(n + swap64(low) + high + fold(low, high) & M64)
    if n >= 4:
        seed ^= int.from_bytes((seed & 0xFFFFFFFF).to_bytes(4, "little"), "big") << 32
        flip = (u64(SECRET, 8) ^ u64(SECRET, 16)) - seed & M64
        h = u32(b, n - 4) + (u32(b, 0) << 32) ^ flip
        rotate = lambda x, r: (x << r | x >> 64 - r) & M64
        h ^= rotate(h, 49) ^ rotate(h, 24)
        h = h * 0x9FB21C651E98DF25 & M64
        h ^= (h >> 35) + n
        h = h * 0x9FB21C651E98DF25 & M64
        return h ^ h >> 28
    if n:
        h = b[0] << 16 | b[n >> 1] << 24 | b[n - 1] | n << 8
        h ^= (u32(SECRET, 0) ^ u32(SECRET, 4)) + seed & M64
    else:
        h = seed ^ u64(SECRET, 56) ^ u64(SECRET, 64)
    h ^= h >> 33
    h = h * P64[1] & M64
    h ^= h >> 29
    h = h * P64[2] & M64
    return h ^ h >> 32


def mix16(b, at, secret_at, seed):
    return fold(u64(b, at) ^ (u64(SECRET, secret_at) + seed & M64),
                u64(b, at + 8) ^ (u64(SECRET, secret_at + 8) - seed & M64))


def middle(b, seed):
    n = len(b)
    h = n * P64[0]
    if n <= 128:
        for i in reversed(range((n - 1) // 32 + 1)):
            h += mix16(b, 16 * i, 32 * i, seed) + mix16(b, n - 16 * i - 16, 32 * i + 16, seed)
        return avalanche(h & M64)
    for i in range(8):
        h += mix16(b, 16 * i, 16 * i, seed)
    h = avalanche(h & M64)
    for i in range(8, n // 16):
        h += mix16(b, 16 * i, 16 * (i - 8) + 3, seed)
    h += mix16(b, n - 16, 136 - 17, seed)
    return avalanche(h & M64)


def stripe(acc, b, at, secret, secret_at):
    for i in range(8):
        value = u64(b, at + 8 * i)
        key = value ^ u64(secret, secret_at + 8 * i)
        acc[i ^ 1] = acc[i ^ 1] + value & M64
        acc[i] = acc[i] + (key & 0xFFFFFFFF) * (key >> 32) & M64


def long(b, seed):
    secret = b"".join(struct.pack("<QQ", u64(SECRET, i) + seed & M64, u64(SECRET, i + 8) - seed & M64)
                      for i in range(0, 192, 16))
    acc = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]
    n = len(b)
    for block in range(0, (n - 1) // 1024 * 1024, 1024):
        for i in range(16):
            stripe(acc, b, block + 64 * i, secret, 8 * i)
        for i in range(8):
            acc[i] = (acc[i] ^ acc[i] >> 47 ^ u64(secret, 128 + 8 * i)) * P32[0] & M64
    block = (n - 1) // 1024 * 1024
    for i in range((n - 1 - block) // 64):
        stripe(acc, b, block + 64 * i, secret, 8 * i)
    stripe(acc, b, n - 64, secret, 192 - 64 - 7)
    h = n * P64[0]
    for i in range(4):
        h += fold(acc[2 * i] ^ u64(secret, 11 + 16 * i), acc[2 * i + 1] ^ u64(secret, 19 + 16 * i))
    return avalanche(h & M64)


def xxh3(b, seed):
    return short(b, seed) if len(b) <= 16 else middle(b, seed) if len(b) <= 240 else long(b, seed)


# ---- the format ----

class Damage(Exception):
    pass


def check(holds, what):
    if not holds:
        raise Damage(what)


def read_manifest(b):
    check(b[:8] == b"RFMANIF1" and u32(b, 8) == 1 and u64(b, 16) == len(b), "manifest: frame")
    check(xxh3(b[:-8], 0) == u64(b, len(b) - 8), "manifest: checksum")
    m = dict(uuid=b[24:40], segment=u64(b, 40), block=u32(b, 48), lanes=u16(b, 52),
             unit=u16(b, 54), interval=struct.unpack_from("<q", b, 56)[0], sealed=[], deletes=[])
    at = 104
    m["heads"] = [u64(b, at + 8 * i) for i in range(m["lanes"])]
    at += 8 * m["lanes"] + 4 * u32(b, 88)
    for _ in range(u32(b, 92)):
        region, files, partition, through = struct.unpack_from("<IIqQ", b, at)
        at += 24
        names = []
        for _ in range(files):
            n = u16(b, at)
            names.append((b[at + 2:at + 2 + n].decode(), *struct.unpack_from("<QQ", b, at + 2 + n)))
            at += 18 + n
        m["sealed"].append((region, partition, through, names))
    for _ in range(u32(b, 96)):
        region, n, lsn = struct.unpack_from("<IIQ", b, at)
        m["deletes"].append((region, lsn, b[at + 16:at + 16 + n]))
        at += 16 + n
    check(at == len(b) - 8, "manifest: lists")
    return m


def read_header(m, lane, number, file):
    copies = []
    for at in (0, m["segment"] - m["block"]):
        b = file[at:at + m["block"]]
        expected = struct.pack("<8sII16sQIIQ", b"RFSEGMT1", 1, lane, m["uuid"], m["segment"],
                               m["block"], 0, number)
        if b[:56] == expected and xxh3(b[:88], 0) == u64(b, 88) and not any(b[96:]):
            copies.append(dict(zip(("generation", "salt", "mark", "cut"),
                                   struct.unpack_from("<4Q", b, 56))))
    check(copies, f"segment {number}: no header")
    return max(copies, key=lambda c: c["generation"])


class Segment:
    def __init__(self, m, lane, number, file):
        check(len(file) == m["segment"], f"segment {number}: size")
        self.number, self.file, self.base = number, file, number * m["segment"]
        self.end = m["segment"] - m["block"]
        self.header = read_header(m, lane, number, file)

    def record(self, at, salt):
        """The header at an offset, with whether its record is whole; None when it is not valid."""
        head = self.file[at:at + 64]
        if at + 64 > self.end or u64(head, 8) != self.base + at:
            return None
        if u64(head, 0) != (xxh3(head[8:], salt) or 1):
            return None
        r = dict(at=at, lsn=self.base + at, mark=u64(head, 16), covered=u32(head, 36), type=head[40])
        n = u32(head, 32)
        check(head[41] == 1 and 1 <= r["type"] <= 9 and not any(head[42:]), "a newer version")
        if r["covered"] % 64 or r["covered"] < 64 + n or at + r["covered"] > self.end:
            return None
        r["payload"] = self.file[at + 64:at + 64 + n]
        r["whole"] = u64(head, 24) == (xxh3(r["payload"], salt) if n else 0)
        return r


def cut_pair(segment, p, salt, block):
    """Salts that the two blocks behind p give as new ones; None for a block without a whole copy."""
    first = -(-p // block) * block
    if first + 2 * block > segment.end:
        return first, (None, None)
    found = []
    for at in (first, first + block):
        r = segment.record(at, salt)
        good = r and r["whole"] and r["type"] == 7 and u64(r["payload"], 0) == segment.base + p
        found.append(u64(r["payload"], 8) if good else None)
    return first, tuple(found)


def walk(m, segments):
    """Returns the records of the log, and where it ended: index, offset, salt."""
    records, i, p, salt = [], 0, m["block"], segments[0].header["salt"]
    while True:
        s = segments[i]
        after = segments[i + 1] if i + 1 < len(segments) else None
        ends_here = after is not None and after.header["cut"] == s.base + p
        if ends_here or p == s.end:
            if after is None:
                break
            check(ends_here or after.header["cut"] == 0, "a cut that the log has passed")
            i, p, salt = i + 1, m["block"], after.header["salt"]
            continue
        r = s.record(p, salt)
        if r and r["whole"] and r["type"] != 7:
            records.append(r)
            p += r["covered"]
            continue
        first, salts = cut_pair(s, p, salt, m["block"])
        if salts[0] is None or salts[0] != salts[1]:
            break
        p, salt = first + 2 * m["block"], salts[0]
    return records, i, p, salt


def normal(m, lsn):
    number, offset = divmod(lsn, m["segment"])
    return (number + 1) * m["segment"] + m["block"] if offset >= m["segment"] - m["block"] else lsn


def read_lane(m, lane, files):
    head = m["heads"][lane]
    numbers = sorted(n for n in files if n >= head)
    check(numbers and numbers == list(range(head, head + len(numbers))), "numbers")
    segments = [Segment(m, lane, n, files[n]) for n in numbers]
    records, i, p, salt = walk(m, segments)
    marks = [s.header["mark"] for s in segments] + [s.header["cut"] for s in segments[1:]]
    marks += [r["mark"] for r in records]
    behind = []
    for k in range(i, len(segments)):
        s = segments[k]
        for at in range(p if k == i else m["block"], s.end, 64):
            if u64(s.file, at + 8) == s.base + at:
                behind.append((k, s.record(at, salt if k == i else s.header["salt"])))
    behind = [(k, r) for k, r in behind if r]
    marks += [r["mark"] for _, r in behind]
    check(segments[i].base + p >= normal(m, max(marks)), "damage below a mark")
    last = len(segments) - 1
    check(not any(k == last for k, _ in behind) and
          not any(r["lsn"] >= segments[last].base for r in records), "records without a successor")
    return records, segments[i].base + p, bool(behind)


def applied(records):
    fences = [(u64(r["payload"], 0), r["lsn"]) for r in records if r["type"] == 5]
    aborted = {u64(r["payload"], 8 + 8 * k) for r in records if r["type"] == 6
               for k in range(u32(r["payload"], 0))}
    return [r for r in records if r["type"] in (1, 2) and r["lsn"] not in aborted and
            not any(a <= r["lsn"] < b for a, b in fences)]


def load(folder):
    with open(os.path.join(folder, "manifest"), "rb") as f:
        m = read_manifest(f.read())
    lanes = []
    for lane in range(m["lanes"]):
        path = os.path.join(folder, f"lane-{lane:02}")
        files = {}
        for name in os.listdir(path):
            if name.isdigit() and len(name) == 10:
                with open(os.path.join(path, name), "rb") as f:
                    files[int(name)] = f.read()
        lanes.append(files)
    return m, lanes


# ---- what must be found ----

WANTED = [(1, b"one\0", 2101248), (1, b"two\0", 2117632), (1, b"three\0", 3149824),
          (2, b"four\0", 4198400)]


def refused(m, files):
    try:
        read_lane(m, 0, files)
    except Damage:
        return True
    return False


def main(top):
    faults = []

    def expect(holds, what):
        if not holds:
            faults.append(f"docs/format/wal.md: {what}")

    m, lanes = load(os.path.join(top, "tests/golden/wal-v1"))
    expect(m["sealed"] == [(1, -1, 3 << 20, [("r0-p-1.tsfile", 4096, 0x0123456789ABCDEF)])] and
           m["deletes"] == [(1, 5000, b"\1\2\3")] and m["unit"] == 2, "the manifest reads otherwise")
    records, end, behind = read_lane(m, 0, lanes[0])
    found = [(r["type"], r["payload"], r["lsn"]) for r in applied(records)]
    expect(found == WANTED, f"applied are {found}")
    expect(end == (4 << 20) + 8192 and not behind, f"the log ends at {end}")
    types = [r["type"] for r in records if r["type"] != 4]
    expect(types == [1, 1, 2, 5, 1, 6, 3, 8, 1, 1, 2, 9], f"the records are of types {types}")

    damaged = 0
    for r in records[:-2]: # each but the close record and its pad, which no mark lies above
        files = dict(lanes[0])
        number, at = divmod(r["lsn"], m["segment"])
        b = bytearray(files[number])
        b[at] ^= 1
        files[number] = bytes(b)
        above = any(x["mark"] > r["lsn"] for x in records)
        damaged += above
        expect(refused(m, files) or not above, f"damage at lsn {r['lsn']} is not found")
    expect(damaged >= 10, "nothing was damaged")
    for missing in lanes[0]:
        expect(refused(m, {n: f for n, f in lanes[0].items() if n != missing}),
               f"segment {missing} is not missed")
    tree.report(faults, 1 + len(records))


if __name__ == "__main__":
    main(tree.root())
