#!/usr/bin/env python3
"""A second reader of recordings, written from docs/format.md alone.

  read_mallow.py events FILE   every event of a sealed recording, one line each
  read_mallow.py facts FILE    what it says of its images, as JSON
  read_mallow.py kernel FILE   what the kernel told beside the events
  read_mallow.py limits FILE   what bounded the program's memory, of either form
  read_mallow.py parts FILE    the sections of a sealed recording, cut or not: where each ends, its type and
                               image, and the calls of a BLOCK; fails where a BLOCK uses a name (a
                               node, module or thread) that does not stand before it
  read_mallow.py index FILE    the parts of its index: image, kind, and of kind 1 how many stacks have figures;
                               fails where these are not those of the events
  read_mallow.py rows FILE     every call row of a raw recording, in the order of the clock

Standard library only; streams of codec 1 go through the `zstd` program.
"""
import json
import struct
import subprocess
import sys

M64 = (1 << 64) - 1
K = 0x9E3779B97F4A7C15


class Bad(Exception):
    pass


def rotl(v, n):
    return (v << n | v >> 64 - n) & M64


def rol4(v):
    return rotl(v, 4)


def ror4(v):
    return rotl(v, 60)


def unzigzag(z):
    return (z >> 1 ^ -(z & 1)) & M64


def checksum(h, data):
    lanes = [h, h ^ K, (h + K) & M64, h ^ M64]
    whole = len(data) // 32 * 32
    for i, w in enumerate(struct.unpack_from("<%dQ" % (whole // 8), data)):
        j = i & 3
        lanes[j] = rotl((lanes[j] ^ w) * K & M64, 29)
    for i, at in enumerate(range(whole, len(data), 8)):
        piece = data[at:at + 8]
        w = int.from_bytes(piece, "little") ^ len(piece) << 56
        lanes[i] = rotl((lanes[i] ^ w) * K & M64, 29)
    r = lanes[0]
    for lane in lanes[1:]:
        r = (r ^ lane) * K & M64
        r ^= r >> 32
    return r


class Reader:
    """Numbers and texts from bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def left(self):
        return len(self.data) - self.at

    def take(self, n):
        if n > self.left():
            raise Bad("past the end")
        self.at += n
        return self.data[self.at - n:self.at]

    def u(self, n):
        return int.from_bytes(self.take(n), "little")

    def varint(self):
        v = shift = 0
        while True:
            b = self.u(1)
            v |= (b & 127) << shift
            shift += 7
            if b < 128:
                return v & M64
            if shift >= 70:
                raise Bad("a varint is too long")

    def text(self):
        return self.take(self.varint()).decode("utf-8", "surrogateescape")

    def texts(self):
        return [self.text() for _ in range(self.varint())]


SIZE_OPS = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23, 24, 26, 27}
STACK_OPS = {1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 16, 17, 18, 22, 23, 24}


def usual(size):
    c = (size + 8 + 15 & M64) & ~15
    return max(c, 32) - 8


# --- the raw form ---

def chunks(data):
    """Sound chunks as (header fields, payload)."""
    at = 0
    while at + 128 <= len(data):
        magic, kind, flags, head, payload = struct.unpack_from("<IHHII", data, at)
        end = at + 128 + payload
        if magic == 0x31434C4D and head == 128 and payload <= 16 << 20 and end <= len(data):
            h = bytearray(data[at:at + 128])
            want = struct.unpack_from("<Q", h, 16)[0]
            h[16:24] = bytes(8)
            if checksum(checksum(0, bytes(h)), data[at + 128:end]) == want:
                f = dict(zip(("image", "pid", "tid", "thread", "lane", "sequence", "calls",
                              "first_call", "lost", "clock", "address"),
                             struct.unpack_from("<QIIIIIIQQQQ", h, 24)))
                f.update(type=kind, flags=flags)
                yield f, data[at + 128:end]
                at = end
                continue
        at = data.find(b"MLC1", at + 1)
        if at < 0:
            return


def raw_limits(data):
    """What LIMITS in FILE says."""
    for chunk, payload in chunks(data):
        at = 0
        while chunk["type"] == 1 and at + 8 <= len(payload):
            tag, _, n = struct.unpack_from("<HHI", payload, at)
            if tag == 25:
                return struct.unpack_from("<3Q", payload, at + 8)
            at += 8 + (n + 7 & ~7)
    return 0, 0, 0


def raw_version(data):
    """The largest VERSION of FILE and of any PROCESS."""
    most = 0
    for chunk, payload in chunks(data):
        at = 0
        while chunk["type"] in (1, 2) and at + 8 <= len(payload):
            tag, _, n = struct.unpack_from("<HHI", payload, at)
            if tag == 1:
                most = max(most, struct.unpack_from("<I", payload, at + 8)[0])
            at += 8 + (n + 7 & ~7)
    return most


def rows(chunk, payload, routed):
    """Call rows of an EVENTS chunk."""
    r = Reader(payload)
    clock, address = chunk["clock"], chunk["address"]
    while r.left():
        h = r.u(2)
        op = h & 31
        if op == 31:
            r.u(1)
            r.take(r.u(2))
            continue
        clock = clock + r.u(1 << (h >> 5 & 3)) & M64
        address = address + unzigzag(r.u(1 << (h >> 7 & 3))) & M64
        size = r.u(1 << (h >> 9 & 3)) if op in SIZE_OPS else 0
        stack = r.u((0, 1, 2, 4)[h >> 11 & 3]) if op in STACK_OPS else 0
        extra = r.u(4) if h >> 13 & 1 else None
        argument = r.u(8) if h >> 14 & 1 else 0
        path = r.u(1) if h >> 15 & 1 else 0
        if routed and path & 96 == 96:  # a second byte: the route, and these two bits of the path
            second = r.u(1)
            path = path & ~96 | second >> 1 & 96 | (second & 63) << 8
        a = rol4(address)
        usable = 0
        if op in STACK_OPS and a and not path & 1:
            usable = usual(size) if extra is None else size + extra & M64
        yield clock, op, a, size, stack, usable, argument, path


NO_CALLS = {19, 20, 21}  # the old halves of calls, and what takes one back
RELEASES = {10, 11, 12, 19, 25, 26}


def raw_rows(data):
    best, routed = {}, raw_version(data) >= 2
    for c, payload in chunks(data):
        if c["type"] != 3:
            continue
        key = c["image"], c["thread"], c["lane"], c["sequence"]
        rank = (not c["flags"] & 1, len(payload))
        if key not in best or rank > best[key][0]:
            best[key] = rank, c, payload
    out = []
    for key in sorted(best):
        _, c, payload = best[key]
        for row in rows(c, payload, routed):
            out.append((c["image"], row[0], row[1] not in RELEASES, c["thread"]) + row[1:])
    out.sort(key=lambda x: x[:3])
    for image, clock, _, thread, op, a, size, _, usable, argument, path in out:
        yield image, clock, thread, op, a, size, usable, argument, path


# --- the sealed form ---

def sections(data):
    """Sound sections as (fields, block fields or None, stream entries with their bytes)."""
    at = 0
    while at + 64 <= len(data):
        magic, kind, n, head, image, payload, want, number = struct.unpack_from("<IHHIIQQQ", data,
                                                                               at)
        fixed = 64 + (88 if kind == 2 else 0)
        if magic == 0x31534C4D and n <= 64 and head == fixed + 16 * n and \
                at + head + payload <= len(data):
            h = bytearray(data[at:at + head])
            h[24:32] = bytes(8)
            if checksum(0, bytes(h)) == want:
                block = None
                if kind == 2:
                    block = dict(zip(
                        ("first_event", "first_tick", "last_tick", "live", "most", "events",
                         "allocs", "used", "free", "threads", "calls", "new", "reference",
                         "epoch"), struct.unpack_from("<5Q7IBB", h, 64)))
                streams = {}
                where = at + head
                for i in range(n):
                    sid, part, codec, _, raw, stored, check = struct.unpack_from(
                        "<BBBBIII", h, fixed + 16 * i)
                    streams[sid, part] = codec, raw, data[where:where + stored], check
                    where += stored
                at += head + payload
                made_of, made_by, key = struct.unpack_from("<3Q", h, 40)
                yield {"type": kind, "image": image, "number": number, "end": at, "check": want, "made_of": made_of,
                       "made_by": made_by, "key": key}, block, streams
                continue
        at = data.find(b"MLS1", at + 1)
        if at < 0:
            return


def column_bytes(streams, sid, part=32):
    if (sid, part) not in streams:
        return b""
    codec, raw, data, check = streams[sid, part]
    if checksum(0, data) & 0xFFFFFFFF != check:
        raise Bad("a stream is damaged")
    if codec == 1:
        data = subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE,
                              check=True).stdout
    if len(data) != raw:
        raise Bad("a stream has the wrong length")
    return data


def column_numbers(streams, sid, n):
    out = [0] * n
    for part in range(8):
        if (sid, part) not in streams:
            break
        for i, b in enumerate(column_bytes(streams, sid, part)):
            out[i] |= b << 8 * part
    r = Reader(column_bytes(streams, sid, 33))
    at = 0
    while r.left():
        at += r.varint()
        out[at] = r.varint()
        at += 1
    return out


def address_class(usable):
    c = (usable + 8 & M64) >> 4
    if c < 64:
        return c
    b = c.bit_length() - 1
    return min(64 + 4 * (b - 6) + (c >> b - 2 & 3), 127)


class Image:
    """What goes on from block to block."""

    def __init__(self):
        self.free, self.used, self.events = [], 0, 0
        self.blocks = {}  # slot -> (address, class, epoch)
        self.epoch = 0
        self.lines = []
        self.threads, self.stacks, self.calls, self.inherited = set(), set(), 0, 0

    def begin_anew(self):
        """A reset: what came before is void."""
        self.__init__()


def read_block(image, b, s, tick_ns, inherited):
    n = b["events"]
    codes = column_bytes(s, 1)
    if b["first_event"] == 0:
        image.begin_anew()
    image.inherited = inherited
    if len(codes) != n or image.events != b["first_event"] or image.used != b["used"] or \
            len(image.free) != b["free"]:
        raise Bad("a block does not follow the one before")
    kinds = [c >> 5 for c in codes]
    ops = [c & 31 for c in codes]
    tr = Reader(column_bytes(s, 2))
    threads = [tr.varint() for _ in range(b["threads"])]
    thread = column_numbers(s, 3, n)
    reference = iter(column_numbers(s, 4, sum(k in (1, 4, 6) for k in kinds)))
    size = iter(column_numbers(s, 5, sum(o in SIZE_OPS for o in ops)))
    stack = iter(column_numbers(s, 6, sum(o in STACK_OPS for o in ops)))
    time = column_numbers(s, 7, n)
    address = iter(column_bytes(s, 8))
    far, other = Reader(column_bytes(s, 9)), Reader(column_bytes(s, 10))
    usables = iter(column_numbers(s, 11, b["allocs"]))
    path = column_bytes(s, 12) or bytes(n)
    route = column_bytes(s, 19) or bytes(n)
    arguments = {}
    r, at = Reader(column_bytes(s, 13)), 0
    while r.left():
        at += r.varint()
        arguments[at] = r.varint()
        at += 1
    tick, last_other = b["first_tick"], 0
    lists, last, ends = {}, 0, [0, 0, 0, 0]
    recent, thread_last = [], {}
    image.epoch += b["epoch"]
    for i in range(n):
        kind, op, slot, a, usable = kinds[i], ops[i], None, 0, 0
        tick += time[i]
        sz = next(size) if op in SIZE_OPS else 0
        st = next(stack) if op in STACK_OPS else 0
        image.stacks.add(st)
        image.threads.add(threads[thread[i]])
        image.calls += kind != 4 and op not in NO_CALLS and image.events + i >= image.inherited
        if kind == 0:
            if image.free:
                slot = image.free.pop()
            else:
                slot = image.used
                image.used += 1
            v = next(usables)
            usable = usual(sz) + (unzigzag(v - 1) if v else 0) & M64
            code, cls = next(address), address_class(usable)
            if code < 8:
                a = lists[cls].pop(code)
                if a == last:
                    last = 0
            elif code == 8:
                a, last = last, 0
            elif code < 13:
                a = ends.pop(code - 9)
                ends.insert(0, a + usable + 8 & M64)
            else:
                a = rol4(ror4(ends[0]) + unzigzag(far.varint()) & M64)
                ends.pop()
                ends.insert(0, a + usable + 8 & M64)
            image.blocks[slot] = a, cls, image.epoch
            recent.append(slot)
            thread_last[thread[i]] = slot
        elif kind in (1, 2, 4, 6):
            if kind == 2:
                slot = thread_last[thread[i]]
            else:
                v = next(reference)
                if b["reference"] == 0:
                    slot = v
                else:
                    slot = v >> 1 if v & 1 else recent[-1 - (v >> 1)]
            a, cls, epoch = image.blocks.pop(slot)
            if epoch == image.epoch:
                mine = lists.setdefault(cls, [])
                mine.insert(0, a)
                del mine[8:]
                last = a
            image.free.append(slot)
        else:
            v = other.varint()
            if v:
                z = v - 1 if v != M64 else M64 - 1 + other.varint()
                last_other = last_other + unzigzag(z) & M64
                a = rol4(last_other)
        image.lines.append((2 if kind == 6 else kind, op, "-" if slot is None else slot,
                            threads[thread[i]], sz, st, tick * tick_ns >> 32, a, usable, path[i] | route[i] << 8,
                            arguments.get(i, 0)))
    if tick != b["last_tick"]:
        raise Bad("ticks do not add up")
    image.events += n


def read_description(s):
    r = Reader(column_bytes(s, 2))
    names = ("id", "pid", "ppid", "forked_from", "inherited", "stack_mode", "start_ns", "end_ns",
             "end_how", "end_status", "complete", "events", "calls", "lost_calls", "slots",
             "stacks", "own_bytes", "first_block", "tick_ns")
    f = {name: r.varint() for name in names}
    f["exe"], f["allocator"], f["command"] = r.text(), r.text(), r.texts()
    has = r.varint()
    environment = r.texts()
    f["environment"] = environment if has == 1 else None
    f["settings"] = environment if has else None
    f["notes"] = r.texts()
    return f


def records(s, sid, kinds):
    rr, out = Reader(column_bytes(s, sid)), []
    while rr.left():
        out.append([rr.text() if k == "t" else rr.varint() for k in kinds])
    return out


def read_splits_more(s, count):
    """[mapped, huge] of each split, and then, of later writers, its lazy bytes, of still later ones its HugetlbPages, and
    of the latest what is shared since a fork, and the proportional size."""
    rr = Reader(column_bytes(s, 17))
    more = [[rr.varint(), rr.varint()] for _ in range(count)] if rr.left() else []
    for _ in range(2):
        for i in range(count if rr.left() else 0):
            more[i].append(rr.varint())
    for i in range(count if rr.left() else 0):
        more[i] += [rr.varint(), rr.varint()]
    if rr.left():
        raise Bad("more sizes than splits")
    return more


def read_image_facts(s):
    f = read_description(s)
    f["modules"] = records(s, 3, "vvvvvtt")
    f["threads"] = records(s, 4, "vvvvvvt")
    f["marks"] = records(s, 5, "vvvt")
    f["resident"] = records(s, 6, "vvvv")
    f["splits"] = records(s, 7, "v" * 10)
    f["splits_more"] = read_splits_more(s, len(f["splits"]))
    f["kernel"] = read_kernel(s)
    return f


def read_early(number, s, before):
    """The facts so far, with those of this EARLY section added."""
    if number != (before["early"] if before else 0):
        raise Bad("an EARLY section does not follow the one before")
    f = before
    if column_bytes(s, 2):
        f = dict(read_description(s), modules=f["modules"] if f else [], marks=[],
                 threads=f["threads"] if f else [], resident=[], splits=[], kernel=[])
    f["early"] = number + 1
    f["modules"] += records(s, 3, "vvvvvtt")
    f["marks"] += records(s, 5, "vvvt")
    for place, tid, start, name in records(s, 16, "vvvt"):
        f["threads"] += [[0, 0, 0, 0, 0, 0, ""]] * (place + 1 - len(f["threads"]))
        f["threads"][place] = [tid, start, start, 0, 0, 0, name]
    return f


def read_kernel(s):
    """What the kernel told: faults, levels, and the other events."""
    out, time, address = [], 0, 0
    r = Reader(column_bytes(s, 13))
    while r.left():
        time += r.varint()
        tid = r.varint()
        address = address + unzigzag(r.varint()) & M64
        out.append(("fault", time, tid, address, r.varint(), r.u(1), r.u(1)))
    r, time = Reader(column_bytes(s, 14)), 0
    while r.left():
        time += r.varint()
        out.append(("level", time) + tuple(r.varint() for _ in range(4)))
    r, time = Reader(column_bytes(s, 15)), 0
    while r.left():
        time += r.varint()
        tid, kind, what, n = r.varint(), r.u(1), r.u(1), r.u(1)
        values = [unzigzag(r.varint()) for _ in range(n)]
        out.append(("moment", time, tid, kind, what) + tuple(v - (v >> 63 << 64) for v in values))
    return out


def read_nodes(number, s, nodes):
    flags = column_bytes(s, 11)
    n = len(flags)
    parent, module, pc = (column_numbers(s, c, n) for c in (8, 9, 10))
    last = {}
    for i in range(n):
        p = number + i - unzigzag(parent[i] - 1) & M64 if parent[i] else 0
        key = module[i] & 255
        last[key] = last.get(key, 0) + unzigzag(pc[i]) & M64
        nodes[number + i] = p, module[i], last[key], flags[i]


def file_facts(r):
    """Kinds of the kernel's events, how many were lost, the minor version, and the limits; earlier writers say none."""
    for _ in range(2):
        r.varint()
    for _ in range(2):
        r.text()
    kernel = (r.varint(), r.varint()) if r.left() else (0, 0)
    minor = r.varint() if r.left() else 0
    return kernel, minor, tuple(r.varint() for _ in range(3)) if r.left() else (0, 0, 0)


def explain(image, facts, nodes):
    """Fails unless all that names the events of the image so far was read."""
    if facts is None:
        raise Bad("a block stands before what describes its process")
    for n in list(image.stacks):
        while n:
            if n not in nodes:
                raise Bad("a block uses node %d, which does not stand before it" % n)
            n, module = nodes[n][:2]
            if module > len(facts["modules"]):
                raise Bad("a node uses a module that does not stand before it")
    if image.events > facts["inherited"]:
        for t in image.threads - {0}:  # of inherited blocks 0, whether there is such a thread or not
            if t >= len(facts["threads"]):
                raise Bad("a block uses a thread that does not stand before it")


def read_sealed(data, parts=None):
    """Images, their facts, their nodes, and of the file what the kernel was asked for and the limits. With `parts`, a list that is
    filled with the lines of `parts`, names must stand before what uses them, and the end may be missing."""
    images, facts, early, nodes, tick_ns, ended, told = {}, {}, {}, {}, None, False, None
    for h, block, s in sections(data):
        number = h["image"]
        calls = 0
        if h["type"] in (1, 5):
            r = Reader(column_bytes(s, 1))
            if r.varint() > 1:
                raise Bad("a later version")
            tick_ns = r.varint()
            kernel, _, limits = file_facts(r)
            told = kernel, limits
            ended |= h["type"] == 5
        elif h["type"] == 2:
            image = images.setdefault(number, Image())
            mine = facts.get(number) or early.get(number)
            before = image.calls if block["first_event"] else 0
            read_block(image, block, s, tick_ns, mine["inherited"] if mine else 0)
            calls = image.calls - before
            if parts is not None:
                explain(image, mine, nodes.get(number, {}))
        elif h["type"] == 3:
            read_nodes(h["number"], s, nodes.setdefault(number, {}))
        elif h["type"] == 4:
            facts[number] = read_image_facts(s)
        elif h["type"] == 6:
            early[number] = read_early(h["number"], s, early.get(number))
        if parts is not None:
            parts.append("%d %d %d %d" % (h["end"], h["type"], number, calls))
    if not ended and parts is None:
        raise Bad("the file is torn")
    return images, facts, nodes, told


def figures_of_events(lines, inherited):
    """Allocations, bytes, and bytes and blocks live at the end, by stack."""
    figures, live = {}, {}
    for i, (kind, _, slot, _, size, stack, *_) in enumerate(lines):
        f = figures.setdefault(live[slot][0] if kind in (1, 2, 4) else stack, [0, 0, 0, 0])
        if kind == 0:
            live[slot] = stack, size
            change = [i >= inherited, size * (i >= inherited), size, 1]
        elif kind in (1, 2, 4):
            change = [0, 0, -live.pop(slot)[1], -1]
        else:
            continue
        for k in range(4):
            f[k] += change[k]
    return {stack: f for stack, f in figures.items() if any(f)}


def kept_columns(s):
    """The columns of a part: numbers by id."""
    r, out = Reader(column_bytes(s, 1)), {}
    while r.left():
        sid, n = r.varint(), r.varint()
        out[sid] = column_numbers(s, sid, n)
    return out


def read_index(data):
    images, facts, _, _ = read_sealed(data)
    made_of, seen_end, out = 0, False, []
    for h, _, s in sections(data):
        if h["type"] != 7:
            made_of = checksum(made_of, struct.pack("<Q", h["check"]))
            seen_end = h["type"] == 5
            continue
        if not seen_end or h["made_of"] != made_of:
            raise Bad("a part of the index was made of something else")
        line = "%d %d" % (h["image"], h["number"])
        if h["number"] == 1:
            columns = kept_columns(s)
            stacks, mapped, steps = columns[2]
            if any(len(columns[4 + i]) != stacks for i in range(8)) or len(columns[17]) != steps or \
                    len(columns[18]) != steps or len(columns.get(12, ())) != mapped:
                raise Bad("columns of the index have other lengths than it says")
            node, have = 0, {}
            for i, more in enumerate(columns[4]):
                node += more
                have[node] = [columns[c][i] for c in (5, 6, 7, 8)]
            image, reset = images.get(h["image"], Image()), any(m[2] == 6 for m in facts[h["image"]]["marks"])
            want = figures_of_events(image.lines, facts[h["image"]]["inherited"])
            if not reset and {k: f for k, f in have.items() if any(f)} != want:
                raise Bad("the figures of the index are not those of the events")
            if not reset and columns[3][64] != facts[h["image"]]["calls"]:
                raise Bad("the calls of the index are not those of the events")
            line += " %d" % stacks
        out.append(line)
    return out


def main():
    what, path = sys.argv[1:]
    with open(path, "rb") as f:
        data = f.read()
    out = []
    if what == "rows":
        out = [" ".join(map(str, r)) for r in raw_rows(data)]
    elif what == "limits":
        out = ["%d %d %d" % (raw_limits(data) if data[:4] == b"MLC1" else read_sealed(data)[3][1])]
    elif what == "parts":
        read_sealed(data, out)
    elif what == "index":
        out = read_index(data)
    else:
        images, facts, nodes, (kernel, _) = read_sealed(data)
        if what == "kernel":
            out.append("%d %d" % kernel)
            for number in sorted(facts):
                out += [" ".join(map(str, (facts[number]["id"],) + line)) for line in facts[number]["kernel"]]
        elif what == "events":
            for number in sorted(images):
                for line in images[number].lines:
                    out.append(" ".join(map(str, (facts[number]["id"],) + line)))
        else:
            for number in facts:
                facts[number]["nodes"] = [list(nodes.get(number, {}).get(i + 1, ()))
                                          for i in range(facts[number]["stacks"])]
            out.append(json.dumps(facts, indent=1))
    print("\n".join(out))


if __name__ == "__main__":
    main()
