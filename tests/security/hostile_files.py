"""Files that unpack to much more than they have."""
import struct

RUN = 1 << 17  # bytes of a block of zstd


def zstd_runs(*runs, run=RUN):
    """A frame of zstd of runs (byte, how many), in 4 bytes for each `run` bytes."""
    blocks = []
    for byte, many in runs:
        while many:
            n = min(many, run)
            blocks.append((1, n, bytes([byte])))  # RLE
            many -= n
    return _frame(blocks, sum(n for _, n, _ in blocks))


def _frame(blocks, total):
    out = [struct.pack("<IBBQ", 0xFD2FB528, 0xC0, 0x38, total)]
    for i, (kind, n, data) in enumerate(blocks):
        out.append(((n << 3) | (kind << 1) | (i == len(blocks) - 1)).to_bytes(3, "little"))
        out.append(data)
    return b"".join(out)


def saved_heap(raw_bytes):
    """Facts without end."""
    packed = zstd_runs((0, raw_bytes), run=78000)
    return b"MLHEAP\0\2" + struct.pack("<IIQQ", 1, 0, raw_bytes, len(packed)) + packed
