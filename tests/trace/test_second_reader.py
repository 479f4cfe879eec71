#!/usr/bin/env python3
"""The C reader and the one written from docs/format.md agree, event for event, with each other and
with the golden files: raw, sealed and stored, sealed and compressed (when `zstd` is there)."""
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from mallowtest import program, read_mallow

HERE = os.path.dirname(os.path.abspath(__file__))
READER = [sys.executable, read_mallow.__file__]


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()


def fail(why):
    print(why)
    sys.exit(1)


def same(name, a, b):
    a, b = a.splitlines(), b.splitlines()
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            fail("%s: event %d:\n  %s\n  %s" % (name, i, x, y))
    if len(a) != len(b):
        fail("%s: %d and %d events" % (name, len(a), len(b)))
    if not a:
        fail("%s: no events" % name)


def by_image(text):
    out = {}
    for line in text.splitlines():
        out.setdefault(line.split()[0], []).append(line)
    return "\n".join("\n".join(out[k]) for k in sorted(out, key=int))


def raw_as_sealed(name, rows, events, golden):
    """Every row that stays is an event: operation, address, size, argument, route, thread and time in
    the same order, image by image."""
    import json
    facts = json.loads(run(*READER, "facts", golden))
    inherited = {str(f["id"]): f["inherited"] for f in facts.values()}
    want, seen = {}, {}
    for line in events.splitlines():
        image, kind, op, _, thread, size, _, ns, address, usable, path, argument = line.split()
        if kind == "4":
            continue
        seen[image] = seen.get(image, 0) + 1
        if seen[image] <= inherited[image]:
            continue
        # 2 ticks of the clock are a nanosecond, 64 a sealed tick, from 1000000 on (test_model.c)
        want.setdefault(image, []).append((op, thread, size, ns, address, argument, int(path) >> 8))
    have = {}
    for line in rows.splitlines():
        image, clock, thread, op, address, size, usable, argument, path = line.split()
        ns = str((int(clock) - 1000000) // 64 * 32)
        have.setdefault(image, []).append((op, thread, size, ns, address, argument, int(path) >> 8))
    for image in want:
        rest = iter(have[image])
        dropped = 0
        for e in want[image]:
            for r in rest:
                if r == e:
                    break
                if r[0] not in ("19", "20", "21"):
                    fail("%s: a row is no event: %s (next event %s)" % (name, r, e))
                dropped += 1
            else:
                fail("%s: an event is no row: %s" % (name, e))
        left = [r for r in rest if r[0] not in ("19", "20", "21")]
        if left:
            fail("%s: rows behind the last event: %s" % (name, left[0]))
        if dropped > len(want[image]) / 5:
            fail("%s: too many halves of failed calls" % name)


def empty_nodes():
    """A sound section of type NODES, of node 0, whose only stream (flags) is empty."""
    stream = struct.pack("<4B3I", 11, 32, 0, 0, 0, 0, read_mallow.checksum(0, b"") & 0xFFFFFFFF)

    def head(check):
        return struct.pack("<IHHII6Q", 0x31534C4D, 3, 1, 64 + len(stream), 0, 0, check, 0, 0, 0, 0) + stream
    return head(read_mallow.checksum(0, head(0)))


def hostile(name, dump, base, want):
    """A section without nodes says nothing of how many there are."""
    with tempfile.TemporaryDirectory() as directory, open(base + ".stored", "rb") as f:
        path = os.path.join(directory, "empty-nodes.sealed")
        with open(path, "wb") as out:
            out.write(f.read() + empty_nodes())
        same(name + " C, with an empty section of nodes", want, by_image(run(dump, path)))


def with_limits(data, limits):
    """A raw recording whose FILE says them, too."""
    payload = struct.unpack_from("<I", data, 12)[0]
    content = data[128:128 + payload] + struct.pack("<HHI3Q", 25, 0, 24, *limits)
    head = bytearray(data[:128])
    struct.pack_into("<IQ", head, 12, len(content), 0)
    struct.pack_into("<Q", head, 16, read_mallow.checksum(read_mallow.checksum(0, bytes(head)), content))
    return bytes(head) + content + data[128 + payload:]


def limits(name, dump, base):
    """What a recording says of limits; recordings that say nothing of them, as all did, have none."""
    with tempfile.TemporaryDirectory() as directory, open(base + ".raw", "rb") as f:
        data = f.read()
        for want in ((0, 0, 0), (1 << 30, 2**64 - 1, 1 << 33), (0, 2**64 - 1, 2**64 - 1)):
            raw, sealed = (os.path.join(directory, form) for form in ("raw", "sealed"))
            with open(raw, "wb") as out:
                out.write(with_limits(data, want) if any(want) else data)
            run(dump, "--stored", raw, sealed)
            text = "%d %d %d\n" % want
            for form in (raw, sealed):
                same(name + " C, limits", text, run(dump, "--limits", form))
                same(name + " Python, limits", text, run(*READER, "limits", form))


def main():
    dump, golden = program("trace/dump_events"), os.path.join(HERE, "golden")
    names = sorted(f[:-4] for f in os.listdir(golden) if f.endswith(".raw"))
    if len(names) < 2:
        fail("no golden files in " + golden)
    for name in names:
        base = os.path.join(golden, name)
        with open(base + ".events") as f:
            want = f.read()
        same(name + " C, raw", want, by_image(run(dump, base + ".raw")))
        same(name + " C, sealed", want, by_image(run(dump, base + ".stored")))
        hostile(name, dump, base, want)
        limits(name, dump, base)
        same(name + " Python, sealed", want, by_image(run(*READER, "events", base + ".stored")))
        if shutil.which("zstd"):
            same(name + " Python, compressed", want,
                 by_image(run(*READER, "events", base + ".sealed")))
        kernel = run(dump, "--kernel", base + ".raw")
        same(name + " C, what the kernel told", kernel, run(dump, "--kernel", base + ".stored"))
        same(name + " Python, what the kernel told", kernel, run(*READER, "kernel", base + ".stored"))
        raw_as_sealed(name, run(*READER, "rows", base + ".raw"), want, base + ".stored")
    print("ok: %s" % ", ".join(names))


if __name__ == "__main__":
    main()
