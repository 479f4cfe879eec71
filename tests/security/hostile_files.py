"""Files that unpack to much more than they have."""
import gzip
import struct

from mallowtest import record

RUN = 1 << 17  # bytes of a block of zstd


def zstd_runs(*runs, run=RUN):
    """A frame of zstd of runs (byte, how many), in 4 bytes for each `run` bytes."""
    blocks = []
    for byte, many in runs:
        while many:
            n = min(many, run)
            blocks.append((1, n, bytes([byte])))  # RLE
            many -= n
    return frame(blocks)


def frame(blocks):
    """Of blocks (kind, bytes, what stands there)."""
    out = [struct.pack("<IBBQ", 0xFD2FB528, 0xC0, 0x38, sum(n for _, n, _ in blocks))]
    for i, (kind, n, data) in enumerate(blocks):
        out.append(((n << 3) | (kind << 1) | (i == len(blocks) - 1)).to_bytes(3, "little"))
        out.append(data)
    return b"".join(out)


def saved_heap(raw_bytes):
    """Facts without end."""
    packed = zstd_runs((0, raw_bytes), run=78000)
    return b"MLHEAP\0\2" + struct.pack("<IIQQ", 1, 0, raw_bytes, len(packed)) + packed


def packed(raw_bytes):
    """Zeros, as zstd packs them."""
    return zstd_runs((0, raw_bytes))


def perf_threads(count):
    """What perf script prints of a program of which each call is another thread's."""
    return b"".join(b"x %d 1.0: probe_libc:malloc: (1) bytes=0x10\n" % (i + 1) for i in range(count))


def heaptrack_tables(lines):
    """Strings and nothing else, as gzip packs them."""
    return gzip.compress(b"v 10400 3\n" + b"s 1 a\n" * lines, 1)


def heaptrack_blank(raw_bytes):
    """Empty lines, as zstd packs them."""
    head = b"v 10400 3\n"
    runs = [(1, n, b"\n") for n in [RUN] * (raw_bytes // RUN)]
    return frame([(0, len(head), head), *runs])


def dj_trace(threads, more):
    """A block, which each thread allocates once more, so that all of them wait; then calls of a last one."""
    def record(thread, pointer):
        return struct.pack("<iI7Q", thread, 1, 0, pointer, 16, 0, 0, 0, 0)
    head = struct.pack("<iI7Q", 0, 255, 0x1234, 0, 8, 0, 0, 0, 0)
    return b"".join((head, record(1, 16), *(record(2 + i, 16) for i in range(threads)),
                     *(record(1, 4096 + 32 * i) for i in range(more))))
