"""Changes files as one who means harm would: field by field, with the checksums put right, so that what
reads them comes further than a flipped bit does.

  mutate(data, seed)   another file: a recording (raw or sealed), a core file, a saved heap, or anything else (as bytes)

The same data and seed give the same file. Standard library, and libzstd for compressed streams."""
import ctypes
import ctypes.util
import random
import struct

from mallowtest.read_mallow import checksum

EDGES = [0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 65535, 65536, 0x100000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF,
         1 << 32, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1]
TEXTS = [b"</script><img src=x onerror=alert(1)>", b"\x1b]0;title\x07\x1b[31m", b"a\nb\rc", b"\xff\xfe\xc0\x80",
         b'"},{"x":"', b"%s%n%p" * 20, b"../../../../etc/passwd", b"/dev/zero", b"/proc/self/mem", b"", b"\0\0\0",
         b"A" * 5000, "\u202e\u2028\u009b".encode()]
HEAD_FIELDS = [(4, 2), (6, 2), (8, 4), (12, 4), (24, 8), (32, 4), (36, 4), (40, 4), (44, 4), (48, 4), (52, 4),
               (56, 8), (64, 8), (72, 8), (80, 8), (88, 8), (96, 8)]
SECTION_FIELDS = [(4, 2), (12, 4), (32, 8), (40, 8)]
BLOCK_FIELDS = [(0, 8), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 4), (52, 4), (56, 4), (60, 4),
                (64, 4), (68, 1), (69, 1)]
_zstd = ctypes.CDLL(ctypes.util.find_library("zstd"))
for _name in ("ZSTD_compress", "ZSTD_decompress", "ZSTD_compressBound"):
    getattr(_zstd, _name).restype = ctypes.c_size_t


def compress(data):
    room = _zstd.ZSTD_compressBound(ctypes.c_size_t(len(data)))
    out = ctypes.create_string_buffer(room)
    n = _zstd.ZSTD_compress(out, ctypes.c_size_t(room), bytes(data), ctypes.c_size_t(len(data)), 1)
    return out.raw[:n]


def decompress(data, raw_bytes):
    out = ctypes.create_string_buffer(raw_bytes + 1)
    n = _zstd.ZSTD_decompress(out, ctypes.c_size_t(raw_bytes), bytes(data), ctypes.c_size_t(len(data)))
    return out.raw[:n] if n == raw_bytes else b""


def number(draw, bits, old):
    how = draw.random()
    if how < .3:
        return old + draw.choice([-16, -2, -1, 1, 2, 16]) & (1 << bits) - 1
    return (draw.choice(EDGES) if how < .8 else draw.getrandbits(bits)) & (1 << bits) - 1


def change_field(draw, data, at, width):
    if 0 <= at and at + width <= len(data):
        old = int.from_bytes(data[at:at + width], "little")
        data[at:at + width] = number(draw, 8 * width, old).to_bytes(width, "little")


def change_bytes(draw, data):
    for _ in range(draw.choice([1, 1, 1, 2, 4, 16])):
        if not data:
            return
        at, how = draw.randrange(len(data)), draw.randrange(7)
        if how == 0:
            data[at] = draw.getrandbits(8)
        elif how == 1:
            data[at] ^= 1 << draw.randrange(8)
        elif how == 2:
            change_field(draw, data, at, draw.choice([1, 2, 4, 8]))
        elif how == 3:
            data[at:at] = data[at:at + draw.randrange(1, 64)]
        elif how == 4:
            del data[at:at + draw.randrange(1, 32)]
        elif how == 5:
            data[at:at] = draw.choice(TEXTS)
        else:
            del data[at:]


def change_varint(draw, data):
    ends = [i + 1 for i, b in enumerate(data) if b < 128]
    if not ends:
        return
    k = draw.randrange(len(ends))
    v, out = number(draw, 64, draw.randrange(300)), bytearray()
    while v > 127:
        out.append(v & 127 | 128)
        v >>= 7
    out.append(v)
    data[ends[k - 1] if k else 0:ends[k]] = draw.choice([out, out, b"\xff" * 9 + b"\x01", b"\xff" * 10])


# --- the raw form: [header, payload] ---

def read_chunks(data):
    out, at = [], 0
    while at + 128 <= len(data) and data[at:at + 4] == b"MLC1":
        head, payload = struct.unpack_from("<II", data, at + 8)
        out.append([bytearray(data[at:at + head]), bytearray(data[at + head:at + head + payload]), False])
        at += head + payload
    return out


def write_chunks(chunks):
    out = bytearray()
    for head, payload, keep_length in chunks:
        head = bytearray(head)
        if not keep_length:
            head[12:16] = len(payload).to_bytes(4, "little")
        head[16:24] = bytes(8)
        head[16:24] = checksum(checksum(0, bytes(head)), bytes(payload)).to_bytes(8, "little")
        out += head + payload
    return bytes(out)


def change_facts(draw, payload):
    """Of records of u16 kind, u16 0, u32 bytes, the bytes up to a multiple of 8."""
    facts, at = [], 0
    while at + 8 <= len(payload):
        kind, _, n = struct.unpack_from("<HHI", payload, at)
        facts.append([kind, n, bytearray(payload[at + 8:at + 8 + n])])
        at += 8 + (n + 7 & ~7)
    if not facts:
        return
    k, how = draw.randrange(len(facts)), draw.randrange(6)
    if how == 0:
        facts[k][1] = number(draw, 32, facts[k][1])
    elif how == 1:
        facts[k][0] = draw.choice([*range(26), 65535])
    elif how == 2:
        facts.insert(draw.randrange(len(facts) + 1), facts[k])
    elif how == 3:
        del facts[k]
    else:
        if how == 4:
            change_bytes(draw, facts[k][2])
        else:
            facts[k][2] = bytearray(draw.choice(TEXTS))
        facts[k][1] = len(facts[k][2])
    payload[:] = b"".join(struct.pack("<HHI", kind, 0, n & 0xFFFFFFFF) + text + bytes(-len(text) % 8)
                          for kind, n, text in facts)


def change_meta_row(draw, payload):
    """A number of a NODE, MODULE or other META row: mostly of what names what."""
    rows = [i for i in range(len(payload) - 13) if payload[i] == 31 and payload[i + 1] == 0 and 1 <= payload[i + 2] <= 8]
    if not rows:
        return change_bytes(draw, payload)
    at = draw.choice(rows)
    if payload[at + 2] == 1 and draw.random() < .4:  # a node that is its own caller, or nearly so
        own = int.from_bytes(payload[at + 5:at + 9], "little") + draw.choice([0, 0, 1, 2, 100])
        payload[at + 9:at + 13] = (own & 0xFFFFFFFF).to_bytes(4, "little")
    else:
        change_field(draw, payload, at + draw.choice([2, 3, 5, 9, 13, 21]), draw.choice([1, 2, 4, 8]))


def change_raw(draw, data):
    chunks = read_chunks(data)
    for _ in range(draw.choice([1, 1, 2, 3, 6])):
        if not chunks:
            break
        k, how = draw.randrange(len(chunks)), draw.randrange(12)
        head, payload, _ = chunks[k]
        kind = int.from_bytes(head[4:6], "little")
        if how < 3:
            at, width = draw.choice(HEAD_FIELDS)
            chunks[k][2] |= at == 12
            change_field(draw, head, at, width)
        elif how == 3:
            chunks.insert(draw.randrange(len(chunks) + 1), [bytearray(head), bytearray(payload), False])
        elif how == 4:
            del chunks[k]
        elif how == 5:
            other = draw.randrange(len(chunks))
            chunks[k], chunks[other] = chunks[other], chunks[k]
        elif how == 6:
            change_bytes(draw, payload)
        elif kind == 3:
            change_meta_row(draw, payload)
        elif kind in (5, 6, 7, 10):
            change_field(draw, payload, 8 * draw.randrange(len(payload) // 8 + 1), 8)
        else:
            change_facts(draw, payload)
    return write_chunks(chunks)


# --- the sealed form: [header, the block's fields, [stream entries]] ---

def read_sections(data):
    out, at = [], 0
    while at + 64 <= len(data) and data[at:at + 4] == b"MLS1":
        kind, n, head = struct.unpack_from("<HHI", data, at + 4)
        fixed = 64 + (88 if kind == 2 else 0)
        streams, where = [], at + head
        for i in range(n):
            name, part, codec, _, raw, stored, _ = struct.unpack_from("<BBBBIII", data, at + fixed + 16 * i)
            text = data[where:where + stored]
            where += stored
            streams.append({"id": name, "part": part, "codec": codec, "raw": None,
                            "text": bytearray(decompress(text, raw) if codec else text)})
        out.append([bytearray(data[at:at + 64]), bytearray(data[at + 64:at + fixed]), streams])
        at = where
    return out


def write_sections(sections):
    out = bytearray()
    for head, block, streams in sections:
        entries, stored = bytearray(), bytearray()
        for s in streams[:64]:
            text = compress(s["text"]) if s["codec"] == 1 else bytes(s["text"])
            raw = len(s["text"]) if s["raw"] is None else s["raw"]
            entries += struct.pack("<BBBBIII", s["id"], s["part"], s["codec"], 0, raw & 0xFFFFFFFF, len(text),
                                   checksum(0, text) & 0xFFFFFFFF)
            stored += text
        head = bytearray(head)
        struct.pack_into("<HI", head, 6, len(streams[:64]), 64 + len(block) + len(entries))
        struct.pack_into("<QQ", head, 16, len(stored), 0)
        struct.pack_into("<Q", head, 24, checksum(0, bytes(head + block + entries)))
        out += head + block + entries + stored
    return bytes(out)


def change_stream(draw, streams):
    s, how = draw.choice(streams), draw.randrange(20)
    if how == 0:
        s["raw"] = number(draw, 32, len(s["text"]))
    elif how == 1:
        s["id"] = draw.randrange(18)
    elif how == 2:
        s["part"] = draw.choice([0, 1, 2, 7, 8, 31, 32, 33, 34, 255])
    elif how == 3:
        s["codec"] = draw.choice([0, 1, 2, 255])
    elif how == 4:
        streams.append(dict(s, text=bytearray(s["text"])))
    elif how == 5:
        streams.remove(s)
    elif how == 6:
        s.update(text=bytearray([draw.choice([0, 1, 255])]) * draw.choice([1 << 16, 1 << 20]), codec=1)
    elif how == 7:
        s["text"] = bytearray(draw.choice(TEXTS))
    elif how < 14:
        change_varint(draw, s["text"])
    else:
        change_bytes(draw, s["text"])


def change_sealed(draw, data):
    sections = read_sections(data)
    for _ in range(draw.choice([1, 1, 2, 3, 6])):
        if not sections:
            break
        k, how = draw.randrange(len(sections)), draw.randrange(20)
        head, block, streams = sections[k]
        if how < 2:
            change_field(draw, head, *draw.choice(SECTION_FIELDS))
        elif how < 5 and block:
            change_field(draw, block, *draw.choice(BLOCK_FIELDS))
        elif how == 5:
            copy = [dict(s, text=bytearray(s["text"])) for s in streams]
            sections.insert(draw.randrange(len(sections) + 1), [bytearray(head), bytearray(block), copy])
        elif how == 6:
            del sections[k]
        elif how == 7:
            other = draw.randrange(len(sections))
            sections[k], sections[other] = sections[other], sections[k]
        elif how == 8:
            del sections[k:]
        elif streams:
            change_stream(draw, streams)
    return write_sections(sections)


# --- core files ---

def change_core(draw, data):
    """Fields of the header, of the segments, of the notes, and words of the memory."""
    table, size, count = (int.from_bytes(data[at:at + width], "little") for at, width in ((32, 8), (54, 2), (56, 2)))
    notes = next((at for at in range(table, table + size * count, size or 1) if data[at:at + 4] == b"\4\0\0\0"), 0)
    start, length = (int.from_bytes(data[notes + at:notes + at + 8], "little") for at in (8, 32))
    for _ in range(draw.choice([1, 1, 2, 4, 16, 64])):
        how = draw.random()
        if how < .1:
            change_field(draw, data, *draw.choice([(32, 8), (40, 8), (52, 2), (54, 2), (56, 2), (58, 2), (60, 2), (62, 2)]))
        elif how < .3 and count:
            change_field(draw, data, table + draw.randrange(count) * size + draw.choice([0, 8, 16, 24, 32, 40, 48]), 8)
        elif how < .5 and length:
            change_field(draw, data, start + draw.randrange(length) // 4 * 4, draw.choice([4, 8]))
        elif how < .99:
            change_field(draw, data, draw.randrange(len(data)) // 8 * 8, 8)
        else:
            del data[draw.randrange(len(data)):]
            return


# --- saved heaps ---

def change_saved(draw, data):
    """Numbers in the sections, unpacked, and the heads of these."""
    sections, at = [], 8
    while at + 24 <= len(data):
        kind, zero, raw, packed = struct.unpack_from("<IIQQ", data, at)
        sections.append([kind, zero, None, bytearray(decompress(data[at + 24:at + 24 + packed], raw))])
        at += 24 + packed
    for _ in range(draw.choice([1, 1, 2, 4])):
        section, how = draw.choice(sections), draw.randrange(12)
        if how == 0:
            section[draw.randrange(2)] = number(draw, 32, section[0])
        elif how == 1:
            section[2] = number(draw, 64, len(section[3]))
        elif how == 2:
            sections[draw.randrange(len(sections))] = list(section[:3]) + [bytearray(section[3])]
        elif how < 9:
            change_varint(draw, section[3])
        else:
            change_bytes(draw, section[3])
    out = bytearray(data[:8])
    for kind, zero, raw, text in sections:
        packed = compress(text)
        out += struct.pack("<IIQQ", kind, zero, len(text) if raw is None else raw, len(packed)) + packed
    return bytes(out)


def mutate(data, seed):
    draw = random.Random(seed)
    if data[:4] == b"MLC1":
        return change_raw(draw, data)
    if data[:4] == b"MLS1":
        return change_sealed(draw, data)
    out = bytearray(data)
    if data[:4] == b"\x7fELF":
        change_core(draw, out)
        return bytes(out)
    if data[:6] == b"MLHEAP":
        return change_saved(draw, data)
    (change_varint if draw.random() < .2 else change_bytes)(draw, out)
    return bytes(out)
