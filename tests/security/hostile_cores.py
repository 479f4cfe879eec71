"""Core files that claim more than they have, made of a sound one."""
import lzma
import os
import struct

PHDR = struct.Struct("<IIQQQQQQ")  # type, flags, offset, address, physical, bytes in the file, in memory, align
LOAD, NOTE, NT_PRSTATUS, NT_FILE = 1, 4, 1, 0x46494C45
READ, WRITE, EXECUTE = 4, 2, 1
TIB = 1 << 40


class Core:
    """The head, segments and bytes of a core; written with what was added."""

    def __init__(self, packed):
        with lzma.open(packed) as f:
            self.bytes = bytearray(f.read())
        at, count = struct.unpack_from("<Q", self.bytes, 32)[0], struct.unpack_from("<H", self.bytes, 56)[0]
        self.segments = [list(PHDR.unpack_from(self.bytes, at + i * PHDR.size)) for i in range(count)]
        self.end = (len(self.bytes) + 4095) & ~4095  # of all that the file claims
        self.more = []  # (offset, bytes)

    def add(self, kind, flags, address, in_file, in_memory, offset=None):
        if offset is None:
            offset = self.end
            self.end += (in_file + 4095) & ~4095
        self.segments.append([kind, flags, offset, address, 0, in_file, in_memory, 4096])
        return offset

    def note(self, data):
        """One more segment of notes, with these bytes."""
        self.more.append((self.add(NOTE, 0, 0, len(data), 0), data))

    def heap(self):
        """The segment of the main arena."""
        return next(s for s in self.segments if s[0] == LOAD and s[1] == READ | WRITE and s[5] == 0x21000)

    def write(self, path):
        with open(path, "wb") as f:
            f.write(self.bytes)
            for offset, data in self.more:
                f.seek(offset)
                f.write(data)
            at = self.end
            count = len(self.segments)
            if count >= 0xFFFF:  # the count is that of a section
                f.seek(at)
                f.write(struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, count, 0, 0))
                f.seek(40)
                f.write(struct.pack("<Q", at))
                at += 4096
            f.seek(32)
            f.write(struct.pack("<Q", at))
            f.seek(56)
            f.write(struct.pack("<H", min(count, 0xFFFF)))
            f.seek(at)
            f.write(b"".join(PHDR.pack(*s) for s in self.segments))


def note(kind, data, name=b"CORE\0\0\0\0"):
    return struct.pack("<III", 5, len(data), kind) + name + data + b"\0" * (-len(data) % 4)


def holes(core):
    """Readable and writable memory of 8 TiB that is in the file, as holes."""
    core.add(LOAD, READ | WRITE, 0x100000000000, 8 * TIB, 8 * TIB)


def one_hole_many_times(core):
    """The same hole as 60 segments of 1 TiB."""
    offset = core.add(LOAD, READ | WRITE, 0x100000000000, TIB, TIB)
    for i in range(1, 60):
        core.add(LOAD, READ | WRITE, 0x100000000000 + i * 2 * TIB, TIB, TIB, offset)


def nothing(core):
    """60 segments of 1 TiB that are not in the file."""
    for i in range(60):
        core.add(LOAD, READ | WRITE, 0x100000000000 + i * TIB, 0, TIB)


def code(core):
    """The same as code of the C library."""
    core.add(LOAD, READ | EXECUTE, 0x100000000000, 8 * TIB, 8 * TIB)


def segments(core):
    """As many as there can be, of one page each: a hole."""
    for i in range((1 << 20) - 40):
        core.add(LOAD, READ | WRITE, 0x100000000000 + i * 8192, 4096, 4096)


def notes(core):
    """Threads without end: a thread's registers, in notes of 64 MiB, and the notes a thousand times."""
    thread = note(NT_PRSTATUS, b"\1" * 336)
    core.note(thread * ((64 << 20) // len(thread)))
    kind, flags, offset, address, _, in_file, in_memory, _ = core.segments[-1]
    for _ in range(1000):
        core.add(kind, flags, address, in_file, in_memory, offset)


def files(core):
    """Four million mapped files, each with a name of its own."""
    count = 4 << 20
    entries = b"".join(struct.pack("<QQQ", 0x100000000000 + i * 8192, 0x100000001000 + i * 8192, 0) for i in range(count))
    names = b"".join(b"/%d\0" % i for i in range(count))
    core.segments.insert(0, None)
    core.note(note(NT_FILE, struct.pack("<QQ", count, 4096) + entries + names))
    core.segments[0] = core.segments.pop()


def large_heap(core):
    """The main arena's segment claims 8 TiB, of which the file has the first pages, and holes."""
    heap = core.heap()
    data = core.bytes[heap[2]:heap[2] + heap[5]]
    heap[2] = core.end
    core.end += 8 * TIB
    heap[5] = heap[6] = 8 * TIB
    core.more.append((heap[2], data))


KINDS = {f.__name__: f for f in (holes, nothing, code, segments, notes, files, large_heap)}


def make(kind, packed, path):
    core = Core(packed)
    KINDS[kind](core)
    core.write(path)
    return os.stat(path)
