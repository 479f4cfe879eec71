"""Reading the data blocks of a page without a browser, independently of web/src/data.ts."""
import base64
import json
import re
import zlib


def blocks_of(path):
    with open(path, encoding="utf-8") as f:
        html = f.read()
    found = re.findall(r'<script type="application/octet-stream" id="([\w-]+)">([A-Za-z0-9+/=]*)</script>', html)
    return {name: json.loads(zlib.decompress(base64.b64decode(text, validate=True))) for name, text in found}


def numbered(blocks, kind):
    return {int(k.split("-")[1]): v for k, v in blocks.items() if k.startswith(kind + "-")}


def read(path):
    """(summary, {block number: process})"""
    blocks = blocks_of(path)
    return blocks["summary"], numbered(blocks, "process")


def moments(path):
    """{block number: moments of that process}"""
    return numbered(blocks_of(path), "moments")


def cells(page):
    """For each row: (group, lane, start bytes, start blocks, [cell]); cells as dicts, absolute."""
    columns, rows, at = page["cells"], page["rows"], 0
    for i, n in enumerate(rows["cells"]):
        live, blocks, position, out = rows["start_bytes"][i], rows["start_blocks"][i], 0, []
        for k in range(at, at + n):
            position += columns["bin"][k]
            out.append({"bin": position, "calls": columns["calls"][k], "allocated": columns["allocated"][k],
                        "temporary": columns["temporary"][k], "peak": live + columns["peak"][k],
                        "peak_blocks": blocks + columns["peak_blocks"][k], "mean": live + columns["mean"][k]})
            live += columns["live"][k]
            blocks += columns["blocks"][k]
            out[-1].update(live=live, blocks=blocks)
        at += n
        yield rows["group"][i], rows["lane"][i], rows["start_bytes"][i], rows["start_blocks"][i], out


def peak_bin(page, first, end):
    highest = page["bins"]["max_bytes"][first:end]
    return first + highest.index(max(highest))


def figures(page, first, end):
    """By group, what a range of bins says: calls, allocated, temporary, peak, peak_blocks, end, end_blocks."""
    peak_at, out = peak_bin(page, first, end), {}
    for group, _lane, live, blocks, row in cells(page):
        f = dict.fromkeys(("calls", "allocated", "temporary"), 0)
        f.update(peak=live, peak_blocks=blocks)
        for c in row:
            if c["bin"] >= end:
                break
            if c["bin"] >= first:
                for key in ("calls", "allocated", "temporary"):
                    f[key] += c[key]
            if c["bin"] < peak_at:
                f.update(peak=c["live"], peak_blocks=c["blocks"])
            elif c["bin"] == peak_at:
                f.update(peak=c["peak"], peak_blocks=c["peak_blocks"])
            live, blocks = c["live"], c["blocks"]
        f.update(end=live, end_blocks=blocks)
        total = out.setdefault(group, dict.fromkeys(f, 0))
        for key, value in f.items():
            total[key] += value
    return out


def stack(page, group):
    """Frames of a group, innermost first, as (function, file, line, module)."""
    frames, texts, out = page["frames"], page["texts"], []
    node = page["groups"]["tip"][group]
    while node:
        f = page["nodes"]["frame"][node - 1]
        out.append((texts[frames["function"][f]], texts[frames["file"][f]], frames["line"][f],
                    texts[frames["module"][f]]))
        back = page["nodes"]["caller"][node - 1]
        node = node - back if back else 0
    return tuple(out)


def call_site(page, group):
    """The frame that a group has as its call site; None without a stack, -1 for several call sites."""
    frames, texts, f = page["frames"], page["texts"], page["groups"]["site"][group]
    if f <= 0:
        return f or None
    return (texts[frames["function"][f - 1]], texts[frames["file"][f - 1]], frames["line"][f - 1],
            texts[frames["module"][f - 1]])
