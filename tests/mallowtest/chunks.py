"""Reads the chunks of a raw recording, for the tests of `mallow record`: what was written, not what
it means. Standard library only."""
import struct

FILE, PROCESS, EVENTS, END, RESIDENT, SPLIT, CLOCK, MARK, SPACE = range(1, 10)
INTERIM, RECOVERED = 1, 2
EXIT, EXEC, KILLED = 1, 2, 3
T_ENVIRONMENT, T_COMMAND, T_EXE, T_FORKED, T_END, T_LOST, T_SPLIT, T_LABEL = 9, 7, 8, 13, 15, 16, 17, 18
T_SETTINGS = 28

MASK = (1 << 64) - 1
FIELDS = {op: 7 for op in (1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 16, 17, 18)}
FIELDS.update({10: 1, 11: 3, 12: 3, 13: 3, 15: 3, 19: 1, 20: 3, 21: 3})
META = 31


class Chunk:
    def __init__(self, head, payload):
        (self.magic, self.type, self.flags, self.header_bytes, self.payload_bytes, self.checksum,
         self.image, self.pid, self.tid, self.thread, self.lane, self.sequence, self.calls,
         self.first_call, self.lost_calls, self.base_clock, self.base_address, self.pair_clock,
         self.pair_monotonic_ns) = struct.unpack_from("<IHHIIQQIIIIIIQQQQQQ", head)
        self.reserved = struct.unpack_from("<QQQ", head, 104)
        self.payload = payload

    def tlvs(self):
        found, at = {}, 0
        while at + 8 <= len(self.payload):
            tag, _, n = struct.unpack_from("<HHI", self.payload, at)
            found.setdefault(tag, []).append(self.payload[at + 8:at + 8 + n])
            at += 8 + (n + 7) // 8 * 8
        return found

    def rows(self):
        """(op, size) of every row; raises ValueError when the payload does not end at one."""
        p, at, rows = self.payload, 0, []
        while at < len(p):
            header, = struct.unpack_from("<H", p, at)
            op = header & 31
            if op == META:
                at += 5 + struct.unpack_from("<H", p, at + 3)[0]
                if at > len(p):
                    raise ValueError("a meta row runs past the end")
                continue
            fields = FIELDS[op]
            at += 2 + (1 << (header >> 5 & 3)) + (1 << (header >> 7 & 3))
            size = 0
            if fields & 2:
                n = 1 << (header >> 9 & 3)
                size = int.from_bytes(p[at:at + n], "little")
                at += n
            if fields & 4:
                at += (1 << (header >> 11 & 3)) >> 1
            at += (header >> 13 & 1) * 4 + (header >> 14 & 1) * 8 + (header >> 15 & 1)
            if at > len(p):
                raise ValueError("a row runs past the end")
            rows.append((op, size))
        return rows


def read(path):
    """The chunks of a file, and how many bytes belong to none. Checksums are not looked at here."""
    with open(path, "rb") as f:
        b = f.read()
    chunks, damaged, at = [], 0, 0
    while at < len(b):
        if b[at:at + 4] == b"MLC1" and len(b) - at >= 128:
            c = Chunk(b[at:at + 128], b"")
            if c.header_bytes == 128 and at + 128 + c.payload_bytes <= len(b):
                c.payload = b[at + 128:at + 128 + c.payload_bytes]
                chunks.append(c)
                at += 128 + c.payload_bytes
                continue
        at += 1
        damaged += 1
    return chunks, damaged


class Recording:
    """What a raw file says of its images."""

    def __init__(self, path):
        self.chunks, self.damaged = read(path)

    def of(self, kind):
        return [c for c in self.chunks if c.type == kind]

    def images(self):
        return {c.image: c for c in self.of(PROCESS)}

    def image_of(self, word):
        """The images whose command line holds this word."""
        return [i for i, c in self.images().items()
                if word.encode() in b" ".join(c.tlvs().get(T_COMMAND, [b""])).split(b"\0")
                or any(word.encode() == a for a in c.tlvs().get(T_COMMAND, [b""])[0].split(b"\0"))]

    def ends(self, image):
        """(how, status) of every END chunk of the image."""
        return [struct.unpack_from("<QII", c.tlvs()[T_END][0])[1:] for c in self.of(END) if c.image == image]

    def lost(self, image):
        return sum(struct.unpack_from("<Q", v)[0] for c in self.of(END) if c.image == image
                   for v in c.tlvs().get(T_LOST, []))

    def streams(self, image):
        """(thread, lane) -> sequence -> chunk; an interim copy only where there is nothing better."""
        streams = {}
        for c in self.of(EVENTS):
            if c.image != image:
                continue
            s = streams.setdefault((c.thread, c.lane), {})
            old = s.get(c.sequence)
            if not old or old.flags & INTERIM and (not c.flags & INTERIM or c.payload_bytes > old.payload_bytes):
                s[c.sequence] = c
        return streams

    def rows(self, image):
        return [r for s in self.streams(image).values() for k in sorted(s) for r in s[k].rows()]

    def sizes(self, image, size):
        """How many blocks of this size were asked for."""
        return sum(1 for op, n in self.rows(image) if op in (1, 2, 3) and n == size)
