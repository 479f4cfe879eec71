"""Raw recordings that claim much in few bytes."""
import struct

from mallowtest.read_mallow import checksum

FILE, PROCESS, EVENTS, END = 1, 2, 3, 4
START = 1000


def chunk(kind, image, payload, thread=0, sequence=0, calls=0, pid=1, clock=START):
    head = struct.pack("<IHHIIQQIIIIIIQQQQ", 0x31434C4D, kind, 0, 128, len(payload), 0, image, pid, pid + thread, thread, 0,
                       sequence, calls, 0, 0, clock, 0) + bytes(40)
    whole = checksum(checksum(0, head), payload)
    return head[:16] + struct.pack("<Q", whole) + head[24:] + payload


def tlv(tag, data):
    return struct.pack("<HHI", tag, 0, len(data)) + data + bytes(-len(data) % 8)


def beginning():
    return chunk(FILE, 0, tlv(1, struct.pack("<I", 1)) + tlv(2, struct.pack("<I", 2)) + tlv(3, struct.pack("<3Q", START, START, 1)))


def process(image, forked_from=0, more=b""):
    fork = tlv(13, struct.pack("<Q", forked_from)) if forked_from else b""
    return chunk(PROCESS, image, tlv(3, struct.pack("<3Q", START + image, START, 1)) + tlv(7, b"p\0") + fork + more, pid=image)


def images(count):
    """So many programs that did nothing."""
    return beginning() + b"".join(process(i) for i in range(1, count + 1))


def generations(count):
    """So many, each forked from the one before."""
    return beginning() + b"".join(process(i, i - 1) for i in range(1, count + 1))


def threads(count):
    """A program of so many threads, each with a buffer that has a time alone."""
    return beginning() + process(1) + b"".join(chunk(EVENTS, 1, b"", thread=i, clock=START + i) for i in range(count))


KINDS = {f.__name__: f for f in (images, generations, threads)}
