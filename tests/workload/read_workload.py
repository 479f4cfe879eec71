"""A second reader of workload files, written from docs/workload.md alone: decodes every record, executes
it by place, and checks all that the specification demands. Returns what it counted.
Usage: read_workload.py FILE (prints JSON)"""
import json
import struct
import sys

M64 = (1 << 64) - 1
K = 0x9E3779B97F4A7C15
CALLS = {1: "malloc", 2: "calloc", 3: "realloc", 4: "reallocarray", 5: "posix_memalign", 6: "aligned_alloc",
         7: "memalign", 8: "valloc", 9: "pvalloc", 10: "free", 11: "free_sized", 12: "free_aligned_sized"}
HEAD = struct.Struct("<IIQIIIIIIQQ")


class Unsound(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Unsound(what)


def checksum(h, data):
    """mlw_checksum_part of src/format/chunk.h."""
    lanes = [h, h ^ K, (h + K) & M64, h ^ M64]

    def mix(i, w):
        v = (lanes[i] ^ w) * K & M64
        lanes[i] = (v << 29 | v >> 35) & M64
    whole = len(data) // 32 * 32
    for at in range(0, whole, 32):
        for i, w in enumerate(struct.unpack_from("<4Q", data, at)):
            mix(i, w)
    rest, i = data[whole:], 0
    while rest:
        piece, rest = rest[:8], rest[8:]
        mix(i, int.from_bytes(piece, "little") ^ (len(piece) << 56))
        i += 1
    r = lanes[0]
    for i in range(1, 4):
        r = (r ^ lanes[i]) * K & M64
        r ^= r >> 32
    return r


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        need(self.at < len(self.data), "a record past its chunk")
        self.at += 1
        return self.data[self.at - 1]

    def number(self):
        v = shift = 0
        while True:
            c = self.byte()
            v |= (c & 127) << shift
            shift += 7
            if c < 128:
                need(v <= M64 and shift <= 70, "a number too large")
                return v

    def difference(self, last):
        z = self.number()
        return (last + (z >> 1 if z % 2 == 0 else -(z + 1 >> 1))) % (1 << 32)

    def done(self):
        return self.at == len(self.data)


def chunk(data, offset, kind):
    need(0 <= offset <= len(data) - HEAD.size, "an offset")
    fields = HEAD.unpack_from(data, offset)
    magic, k, check, thread, records, ops, runs, pace, zero, place, ns = fields
    need(magic == 0x434C574D and k == kind and zero == 0, "a chunk's head")
    start = offset + HEAD.size
    payload = data[start:start + ops + runs + pace]
    need(len(payload) == ops + runs + pace, "a chunk's length")
    head = HEAD.pack(*fields[:2], 0, *fields[3:])
    need(checksum(checksum(0, head), payload) == check, "a chunk's checksum")
    return dict(thread=thread, records=records, place=place, ns=ns, ops=Bytes(payload[:ops]),
                runs=Bytes(payload[ops:ops + runs]), pace=Bytes(payload[ops + runs:]))


def summary(data):
    need(len(data) >= 32, "too short")
    magic, version, zero = struct.unpack_from("<IIQ", data, 0)
    need(magic == 0x314C574D and version == 1 and zero == 0, "the head")
    offset, magic, zero = struct.unpack_from("<QII", data, len(data) - 16)
    need(magic == 0x454C574D and zero == 0, "the tail")
    r = chunk(data, offset, 2)["ops"]
    facts = {}
    for _ in range(r.number()):
        tag = r.number()
        facts[tag] = r.number()
    calls = {}
    for _ in range(r.number()):
        code = r.number()
        calls[code] = r.number()
    threads = []
    for _ in range(r.number()):
        t = dict(seat=r.number(), flags=r.number(), records=r.number(), offsets=[])
        need(t["seat"] < facts[2] and t["flags"] < 8 and t["flags"] & 3 != 1, "a thread")
        at = 0
        for _ in range(r.number()):
            at += r.number()
            t["offsets"].append(at)
        threads.append(t)
    need(r.done(), "bytes behind the summary")
    need(sum(t["flags"] & 1 for t in threads) <= 1 and facts[2] <= len(threads), "the threads")
    need(facts[1] <= min(facts[3], 1 << 31) and facts[3] <= len(data), "the totals")
    return facts, calls, threads


def records(data, threads, duration):
    """Every record as (place, thread, code, variant, fields), fields decoded but slots not yet checked."""
    out = []
    for index, t in enumerate(threads):
        seen = 0
        for offset in t["offsets"]:
            c = chunk(data, offset, 1)
            need(c["thread"] == index and c["records"] > 0, "a chunk of another thread")
            places, first, at = [], True, c["place"]
            while not c["runs"].done():
                gap, length = c["runs"].number(), c["runs"].number()
                need(length > 0 and not (first and gap), "a run")
                at, first = at + gap, False
                places += range(at, at + length)
                at += length
            need(len(places) == c["records"], "runs that do not sum up")
            paced, ns = 0, c["ns"]
            while not c["pace"].done():
                step = c["pace"].number()
                need(step > 0, "a step of no records")
                paced, ns = paced + step, ns + c["pace"].number()
            need(paced < c["records"] and ns <= duration, "pace beyond the chunk")
            out.append((places, index, c["ops"]))
            seen += len(places)
        need(seen == t["records"], "a thread's records")
    return out


def execute(data, trail=None):
    facts, told, threads = summary(data)
    order = {}
    for places, thread, ops in records(data, threads, facts[7]):
        state = dict(ops=ops, slot=0, generation=0)
        for i, place in enumerate(places):
            need(place not in order, "a place twice")
            order[place] = (thread, state, i == len(places) - 1)
    need(sorted(order) == list(range(len(order))), "places with gaps")
    slots = {}  # number -> [generation, full, size, toucher]
    stacks = [[] for _ in threads]
    left = [t["records"] for t in threads]
    started = [bool(t["flags"] & 2) for t in threads]
    seats = {t["seat"]: i for i, t in enumerate(threads) if t["flags"] & 2}
    need(len(seats) == sum(started), "two threads on a seat")
    blocks_of, made = {}, [0] * len(threads)
    calls, live, peak, blocks, begun = {}, 0, 0, 0, set()
    for place in range(len(order)):
        thread, s, last = order[place]
        r = s["ops"]
        need(started[thread], "a record before its thread's start")
        first, size, block = r.byte(), None, None
        code, variant = first & 31, first >> 5

        def name():
            s["slot"] = r.difference(s["slot"])
            need(s["slot"] < facts[1], "a slot out of range")
            return s["slot"]

        def generation():
            s["generation"] = r.difference(s["generation"])
            return s["generation"]

        def full(handed):
            k = slots.get(name())
            need(k is not None and k[1], "a release of an empty slot")
            if handed:
                need(generation() == k[0], "another life's block")
            else:
                need(k[3] == thread, "a block that another thread touched")
            k[3] = thread
            return k

        if code in CALLS:
            calls[code] = calls.get(code, 0) + 1
        if code in (1, 2, 5, 6, 7, 8, 9, 21) or (code in (3, 4) and variant < 4):
            need(variant < 4, "a variant")
            k = None
            if variant == 0:
                need(stacks[thread], "an empty stack")
                s["slot"] = stacks[thread].pop()
                k = slots[s["slot"]]
            elif variant == 1:
                need(name() not in slots, "a new slot that is not")
                k = slots[s["slot"]] = [0, False, 0, thread]
            elif variant == 2:
                k = slots.get(name())
                need(k and not k[1] and generation() == k[0], "a taken slot that is not free")
                if k[4] is not None:
                    need(left[k[4]] == 0, "a slot from the stack of a thread that lives")
            if code in (5, 6, 7):
                r.number()
            size = r.number()
            if k is not None:
                k[0:4] = [k[0] + 1, True, size, thread]
                block = blocks_of[s["slot"]] = (thread, made[thread])
                made[thread] += 1
                need(k[0] < 1 << 20, "too many lives")
                live, blocks = live + size, blocks + 1
        elif code in (3, 4):
            k = full(variant in (5, 7))
            block = blocks_of[s["slot"]]
            live -= k[2]
            if variant >= 6:
                k[1], k[2], blocks = False, 0, blocks - 1
                k[4:] = [None]
            else:
                size = r.number()
                k[0:4] = [k[0] + 1, True, size, thread]
                live += size
        elif code in (10, 11, 12, 22):
            need(variant <= 4 and not (variant == 4 and code == 22), "a variant")
            if variant != 4:
                k = full(variant & 2)
                block = blocks_of[s["slot"]]
                live, blocks, k[1], k[2] = live - k[2], blocks - 1, False, 0
                k[4:] = [None if variant & 1 else thread]
                if not variant & 1:
                    stacks[thread].append(s["slot"])
            if code == 12:
                r.number()
            if code in (11, 12):
                r.number()
        elif code == 20:
            k = full(variant & 2)
            live, k[2] = live - k[2], 0
        elif code == 23:
            k = full(variant & 2)
            moved = blocks_of[s["slot"]]
            need(name() not in slots, "a move to a slot in use")
            blocks_of[s["slot"]] = moved
            slots[s["slot"]] = [1, True, k[2], thread]
            k[1] = False
        elif code == 24:
            who = r.number()
            need(who < len(threads) and not started[who], "a start")
            before = seats.get(threads[who]["seat"])
            need(before is None or (before < who and left[before] == 0
                                     and not threads[before]["flags"] & 5), "a seat taken")
            started[who] = True
            seats[threads[who]["seat"]] = who
        elif code == 25:
            need(variant == 0 and r.number() <= len(begun), "an end before threads begin")
        elif code == 26:
            need(variant == 0 and 1 <= r.number() <= 8, "a pool that is none")
        else:
            raise Unsound(f"code {code}")
        begun.add(thread)
        if trail is not None and code in CALLS:
            trail.append((thread, CALLS[code], size, block))
        left[thread] -= 1
        peak = max(peak, live)
        if last:
            need(r.done(), "bytes behind a chunk's records")
    need(calls == told, "the summary's calls")
    need((facts[3], facts[4], facts[5], facts[12], facts[13]) ==
         (len(order), sum(calls.values()), peak, live, blocks), "the summary's totals")
    return dict(calls={CALLS[c]: n for c, n in sorted(calls.items())}, threads=len(threads), slots=facts[1],
                operations=facts[4], peak_live_bytes=peak, end_live_bytes=live, end_live_blocks=blocks,
                unknown_frees=facts[8], not_replayed=facts[10])


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as f:
        print(json.dumps(execute(f.read())))
