"""bench-report.json as a page: python3 report.py REPORT.json PAGE.html [MICRO.json]

One self-contained file: no network, no script, SVG drawn here."""

import html
import json
import math
import sys

INK, SOFT, FAINT = "#1d2733", "#5b6877", "#dfe4ea"
OURS, THEIRS, GOOD, BAD, WARN = "#0b6e8f", "#c7822b", "#2e8b57", "#c0392b", "#b8860b"

STYLE = f"""
body{{font:15px/1.5 system-ui,sans-serif;color:{INK};max-width:1040px;margin:2.5em auto;padding:0 1.5em;
background:#fbfcfd}}
h1{{font-size:1.9em;margin:0}} h2{{margin:2.2em 0 .2em;font-size:1.25em}}
p{{color:{SOFT};margin:.3em 0 .8em;max-width:46em}}
.facts{{color:{SOFT};font-size:.9em}}
.cards{{display:flex;flex-wrap:wrap;gap:12px;margin:1.4em 0}}
.card{{flex:1 1 170px;background:#fff;border:1px solid {FAINT};border-radius:8px;padding:12px 16px}}
.card b{{display:block;font-size:1.7em;color:{OURS}}} .card span{{color:{SOFT};font-size:.86em}}
svg{{display:block;background:#fff;border:1px solid {FAINT};border-radius:8px;width:100%;height:auto}}
svg text{{font:12px system-ui,sans-serif;fill:{INK}}} svg .s{{fill:{SOFT}}} svg .b{{font-weight:600}}
table{{border-collapse:collapse;width:100%;background:#fff;font-size:.86em;border:1px solid {FAINT}}}
td,th{{padding:4px 8px;border-bottom:1px solid {FAINT};text-align:left;vertical-align:top}}
td.n,th.n{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}}
.met{{color:{GOOD}}} .missed{{color:{BAD};font-weight:600}} .explained{{color:{WARN}}}
.noisy{{color:{WARN};font-size:.9em}} .banner{{border-left:4px solid {WARN};padding:.4em .9em;
background:#fff8e8;color:{INK}}}
"""


def esc(text):
    return html.escape(str(text), quote=True)


def short(value, unit=""):
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g} {letter}{unit}" if unit else f"{value / limit:.3g} {letter}"
    return f"{value:.3g} {unit}".strip()


def cut(words, letters=46):
    return words if len(words) <= letters else words[:letters - 1].rstrip() + "\u2026"


def size(value):
    return f"{value // 2**20} MiB" if value >= 2**20 else f"{value // 2**10} KiB"


def svg(width, height, parts, label):
    return (f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{esc(label)}">'
            + "".join(parts) + "</svg>")


def text(x, y, what, anchor="start", kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{esc(what)}</text>'


def bar(x, y, w, h, color, title="", opacity=1.0):
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 1):.1f}" height="{h}" rx="2" '
            f'fill="{color}" opacity="{opacity}"><title>{esc(title)}</title></rect>')


def line(x1, y1, x2, y2, color=FAINT, width=1, dash=""):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
            f'stroke-width="{width}" stroke-dasharray="{dash}"/>')


class Log:
    """A logarithmic axis from low to high over x0..x1."""

    def __init__(self, low, high, x0, x1):
        self.low, self.high = math.log10(low), math.log10(high)
        self.x0, self.x1 = x0, x1

    def __call__(self, value):
        at = (math.log10(max(value, 1e-12)) - self.low) / (self.high - self.low)
        return self.x0 + min(max(at, 0), 1) * (self.x1 - self.x0)

    def ticks(self):
        for power in range(math.floor(self.low), math.ceil(self.high) + 1):
            for step in (1, 2, 5):
                value = step * 10.0 ** power
                if self.low - 1e-9 <= math.log10(value) <= self.high + 1e-9:
                    yield value


def pair_ratios(row):
    a, b = row["values"], row["against_values"]
    return [x / ((b[i] + b[i + 1]) / 2) for i, x in enumerate(a) if i + 1 < len(b)]


def color_of(row):
    if row["too_noisy"]:
        return WARN
    return {True: GOOD, False: BAD, "explained": WARN}.get(row["met"], OURS)


# ---- pictures ----

def goals(rows):
    """A strip a row: every pair a dot, the median a bar, the goal a mark, the good side shaded."""
    rows = [r for r in rows if r["goal_kind"] in ("at least", "at most") and r["ratio"]]
    if not rows:
        return ""
    left, width, step, top = 330, 1000, 30, 34
    height = top + step * len(rows) + 10
    everything = [r["ratio"] for r in rows] + [r["goal"] for r in rows]
    axis = Log(min(min(everything) * 0.7, 0.1), max(max(everything) * 1.3, 4), left, width - 74)
    parts = []
    for tick in axis.ticks():
        parts += [line(axis(tick), top - 6, axis(tick), height - 8, FAINT),
                  text(axis(tick), top - 12, f"{tick:g}", "middle", "s")]
    parts.append(line(axis(1), top - 6, axis(1), height - 8, SOFT, 1.2))
    for index, row in enumerate(rows):
        y = top + index * step
        goal = axis(row["goal"])
        low, high = (goal, axis.x1) if row["goal_kind"] == "at least" else (axis.x0, goal)
        parts.append(bar(low, y + 2, high - low, 24, GOOD, "within the goal", 0.09))
        parts.append(line(goal, y, goal, y + 28, GOOD, 2))
        for ratio in pair_ratios(row):
            parts.append(f'<circle cx="{axis(ratio):.1f}" cy="{y + 14}" r="2.6" '
                         f'fill="{color_of(row)}" opacity=".3"/>')
        parts.append(f'<rect x="{axis(row["ratio"]) - 2.5:.1f}" y="{y + 5}" width="5" height="18" '
                     f'rx="2" fill="{color_of(row)}"><title>{row["ratio"]:.3f}</title></rect>')
        parts += [text(left - 12, y + 12, row["id"], "end", "b"),
                  text(left - 12, y + 25, cut("against " + row["against"]), "end", "s"),
                  text(width - 8, y + 18, f'{row["ratio"]:.2f} x', "end", "b")]
    return svg(width, height, parts, "Ratios against goals")


def paired_bars(entries, label, logarithmic=False):
    """entries: (name, ours, theirs, their name): two bars each."""
    if not entries:
        return ""
    left, width, step = 330, 1000, 46
    most = max(max(e[1], e[2]) for e in entries)
    least = min(min(e[1], e[2]) for e in entries)
    axis = Log(least / 2, most, 0, width - left - 130)
    along = axis if logarithmic else lambda value: value * (width - left - 130) / most
    parts = []
    for index, (name, ours, theirs, whose) in enumerate(entries):
        y = 8 + index * step
        parts += [text(left - 12, y + 15, name, "end", "b"),
                  text(left - 12, y + 33, cut(whose), "end", "s"),
                  bar(left, y + 3, along(ours), 15, OURS, f"Ringfence {short(ours)}"),
                  bar(left, y + 21, along(theirs), 15, THEIRS, f"{whose} {short(theirs)}"),
                  text(left + along(ours) + 6, y + 15, short(ours)),
                  text(left + along(theirs) + 6, y + 33, short(theirs), "start", "s")]
    return svg(width, 12 + step * len(entries), parts, label)


def device(sweep):
    """The bare device: a square for each block size and depth, both ways."""
    if not sweep:
        return ""
    ways = sorted({s["way"] for s in sweep})
    blocks = sorted({s["block"] for s in sweep})
    depths = sorted({s["depth"] for s in sweep})
    most = max(s["bytes_per_s"] for s in sweep)
    found = {(s["way"], s["block"], s["depth"]): s["bytes_per_s"] for s in sweep}
    cell_w, cell_h, left, top, gap = 60, 34, 70, 54, 40
    parts = []
    for w, way in enumerate(ways):
        x0 = left + w * (cell_w * len(blocks) + gap)
        parts.append(text(x0, 18, way, "start", "b"))
        for b, block in enumerate(blocks):
            parts.append(text(x0 + b * cell_w + cell_w / 2, top - 8, size(block), "middle", "s"))
            for d, depth in enumerate(depths):
                rate = found.get((way, block, depth), 0)
                x, y = x0 + b * cell_w, top + d * cell_h
                parts.append(bar(x + 1, y + 1, cell_w - 2, cell_h - 2, OURS,
                                 f"{way}, {size(block)}, depth {depth}: {rate / 1e6:.0f} MB/s",
                                 round(0.08 + 0.9 * rate / most, 2)))
                fill = "#fff" if rate > most / 2 else INK
                parts.append(f'<text x="{x + cell_w / 2}" y="{y + 21}" text-anchor="middle" '
                             f'style="fill:{fill}">{rate / 1e6:.0f}</text>')
    for d, depth in enumerate(depths):
        parts.append(text(left - 8, top + d * cell_h + 21, f"depth {depth}", "end", "s"))
    width = left + len(ways) * (cell_w * len(blocks) + gap)
    return svg(width, top + cell_h * len(depths) + 12, parts, "MB/s of the bare device")


def latency(curves):
    """Percentiles of one small durable record; the axis stretches the tail."""
    if not curves:
        return ""
    width, height, left, bottom, top = 1000, 330, 70, 290, 20
    points = [p for c in curves.values() for p in c if 0 < p[0] <= 0.9995 and p[1] > 0]
    if not points:
        return ""
    vertical = Log(min(p[1] for p in points) * 0.8, max(p[1] for p in points) * 1.2, bottom, top)
    nines = 3.3
    across = lambda q: left + min(-math.log10(1 - q), nines) / nines * (width - left - 150)
    parts = []
    for tick in vertical.ticks():
        parts += [line(left, vertical(tick), width - 150, vertical(tick)),
                  text(left - 8, vertical(tick) + 4, short(tick * 1e-6, "s") if tick >= 1e6 else
                       f"{tick:g} us", "end", "s")]
    for q in (0.5, 0.9, 0.99, 0.999):
        parts += [line(across(q), top, across(q), bottom),
                  text(across(q), bottom + 18, f"p{100 * q:g}", "middle", "s")]
    for name, color, title in (("device", THEIRS, "bare write"), ("engine", OURS, "Ringfence")):
        path = [p for p in curves.get(name, []) if p[0] <= 0.9995 and p[1] > 0]
        if not path:
            continue
        drawn = " ".join(f"{across(q):.1f},{vertical(v):.1f}" for q, v in path)
        parts += [f'<polyline points="{drawn}" fill="none" stroke="{color}" stroke-width="2.4"/>']
        parts.append(bar(width - 130, 28 if name == "engine" else 50, 14, 10, color))
        parts.append(text(width - 110, 37 if name == "engine" else 59, title))
    return svg(width, height, parts, "Latency of one small durable record")


def micro(path):
    with open(path, encoding="utf-8") as f:
        found = json.load(f)["benchmarks"]
    out = ["<table><tr><th>part</th><th class=n>time a round</th><th class=n>rate</th></tr>"]
    for b in found:
        if b.get("error_occurred"):
            out.append(f'<tr><td>{esc(b["name"])}</td><td class="n missed" colspan=2>'
                       f'{esc(b.get("error_message", "failed"))}</td></tr>')
            continue
        ns = b["real_time"] * {"ns": 1, "us": 1e3, "ms": 1e6}[b["time_unit"]]
        rate = ""
        if "bytes_per_second" in b:
            rate = short(b["bytes_per_second"], "B/s")
        elif "items_per_second" in b:
            rate = short(b["items_per_second"], "items/s")
        shown = f"{ns:.1f} ns" if ns < 1e3 else f"{ns / 1e3:.2f} us" if ns < 1e6 else \
            f"{ns / 1e6:.2f} ms"
        out.append(f'<tr><td>{esc(b["name"])}</td><td class=n>{shown}</td><td class=n>{rate}</td>'
                   "</tr>")
    return "".join(out) + "</table>"


# ---- the page ----

def goal_text(row):
    kind, goal = row["goal_kind"], row["goal"]
    return {"at least": f"&ge; {goal} x", "at most": f"&le; {goal} x",
            "less by": f"&le; + {goal} {row['unit']}",
            "value at most": f"&le; {goal} {row['unit']}"}.get(kind, "")


def met_text(row):
    met = row["met"]
    if met is None:
        return ""
    if met == "explained":
        return f'<a class=explained href="{esc(row["explained"])}">explained</a>'
    return "<span class=met>met</span>" if met else "<span class=missed>missed</span>"


def table(rows):
    out = ["<table><tr><th>row</th><th class=n>value</th><th class=n>against</th><th class=n>ratio"
           "</th><th class=n>goal</th><th></th><th class=n>runs</th><th class=n>spread</th>"
           "<th class=n>CPU s a million points</th><th class=n>theirs / ours</th></tr>"]
    for r in rows:
        cpu = r["cpu_s_per_mpoint"]
        cpu_ratio = f'{r["cpu_ratio"]:.2f}' if r["cpu_ratio"] else ""
        noisy = "<div class=noisy>too noisy</div>" if r["too_noisy"] else ""
        note = f'<div class=facts>{esc(r["note"])}</div>' if r["note"] else ""
        spread = "" if r["spread"] is None else f'{100 * r["spread"]:.1f} %'
        out.append(
            f'<tr id="{esc(r["id"])}"><td><b>{esc(r["id"])}</b><div class=facts>{esc(r["what"])}; '
            f'against {esc(r["against"])}</div>{note}</td>'
            f'<td class=n>{short(r["value"], r["unit"])}</td>'
            f'<td class=n>{short(r["against_value"], r["unit"])}</td>'
            f'<td class=n><b>{r["ratio"]:.3f}</b></td><td class=n>{goal_text(r)}</td>'
            f'<td>{met_text(r)}{noisy}</td><td class=n>{r["runs"]}</td><td class=n>{spread}</td>'
            f'<td class=n>{f"{cpu:.4f}" if cpu else ""}</td>'
            f'<td class=n>{cpu_ratio}</td></tr>')
    return "".join(out) + "</table>"


def card(value, what):
    return f"<div class=card><b>{value}</b><span>{esc(what)}</span></div>"


def page(report, micro_path):
    rows = report["rows"]
    by_id = {r["id"]: r for r in rows}
    machine = report["machine"]
    judged = [r for r in rows if r["met"] is not None]
    noisy = [r for r in rows if r["too_noisy"]]
    cards = [card(f'{sum(r["met"] is True for r in judged)} of {len(judged)}', "goals met")]
    for row, what in (("durable-64", "points/s durable, 64 in flight"),
                      ("burst", "points/s, not waiting for the device"),
                      ("small-p50", "one durable record, p50")):
        if row in by_id:
            cards.append(card(short(by_id[row]["value"], "us" if row == "small-p50" else ""),
                              f'{what}: {by_id[row]["ratio"]:.2f} x {by_id[row]["against"]}'))
    peers = [(i, by_id[i]) for i in ("durable-64-peers", "durable-1-lmdb", "rocksdb-blob",
                                     "rocksdb-rows", "sqlite", "rocksdb-blob-async",
                                     "rocksdb-rows-async") if i in by_id]
    shapes = [(i, by_id[i]) for i in ("burst", "wide", "narrow", "text", "fleet", "turns",
                                      "disorder") if i in by_id]
    body = [f"<h1>Ringfence, measured</h1><div class=facts>{esc(machine['cpu'])}, "
            f"{machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, Linux "
            f"{esc(machine['kernel'])}, gcc {esc(machine['compiler'])}, XXH3 {esc(machine['hash'])}; "
            f"version {esc(report['version'])}, {esc(report['when'])}"
            f"{', quick run' if report['quick'] else ''}</div>",
            f"<div class=cards>{''.join(cards)}</div>"]
    if noisy or machine["load_at_end"] > machine["cores"]:
        body.append(f"<p class=banner>{len(noisy)} of {len(rows)} rows are too noisy to be judged; "
                    f"the load was {machine['load_at_end']:.1f} on {machine['cores']} cores. "
                    "Ratios hold better than rates here, and neither holds well.</p>")
    sections = [
        ("Against the goals", "Every pair is a dot, the median a bar; the shaded side is within the "
         "goal. Left of 1 the engine is slower (or takes less, where times are compared).",
         goals(rows)),
        ("Beside its peers", "Points a second, the same tablets, each at its best setting.",
         paired_bars([(i, r["value"], r["against_value"], r["note"] or r["against"])
                      for i, r in peers], "Peers")),
        ("One small durable record", "From the call to the answer, against a blocking durable write "
         "of one block, in turns.", latency(report.get("small_latency_us"))),
        ("Shapes of tablets", "A burst that nobody waits for, against a copy of the same bytes: "
         "points a second.",
         paired_bars([(i, r["value"], r["against_value"], r["what"]) for i, r in shapes],
                     "Shapes")),
        ("Processor time", "CPU seconds a million points, of all threads of the process: ours, and "
         "what it is held against. On a busy machine this is the steadier figure; less is better; the axis is logarithmic.",
         paired_bars([(r["id"], r["cpu_s_per_mpoint"], r["against_cpu_s_per_mpoint"],
                       r["note"] or r["against"]) for r in rows
                      if r["cpu_ratio"] and not r["id"].endswith("-main")], "Processor time", True)),
        ("The bare device", "MB/s by size of a write and writes in flight, durable in two ways.",
         device(report.get("device"))),
        ("All rows", "Values and baselines are medians; the ratio is that of neighbours in time, so "
         "it is not their quotient. The spread is that of the baseline against itself.",
         table(rows)),
    ]
    if micro_path:
        sections.append(("Parts", "Single steps, by themselves, on warm caches.", micro(micro_path)))
    for title, words, picture in sections:
        if picture:
            body.append(f"<h2>{title}</h2><p>{words}</p>{picture}")
    return (f"<!doctype html><html lang=en><meta charset=utf-8><title>Ringfence, measured</title>"
            f"<style>{STYLE}</style><body>{''.join(body)}</body></html>\n")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as f:
        report = json.load(f)
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write(page(report, sys.argv[3] if len(sys.argv) == 4 else None))


if __name__ == "__main__":
    main()
