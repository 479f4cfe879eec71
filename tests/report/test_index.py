#!/usr/bin/env python3
"""The index that a report keeps in its recording: reports are the same with and without it, byte for byte; a
recording reads as before wherever the writing of the index was cut; nothing in an index that lies or is damaged
ends a reader by a signal; files that are not to be written are not."""
import fcntl
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

from mallowtest import LONG, MALLOW, ROOT, SANITIZED, program, read_mallow

PROGRAM = program("report/fragmented")
RECORDINGS = [os.path.join(ROOT, "tests", "trace", "golden", name + ".sealed") for name in ("forks", "threads", "kernel")]
RECORDINGS.append(program("trace/made-up.sealed"))
# LONG: all of what follows for each recording; else the recordings take turns. Under a sanitizer, where each process starts
# slowly and only what is damaged is new, they take less.
TEXT = [[], ["-n", "3"], ["--by", "calls"], ["--by", "end", "-n", "0"], ["--all-frames"], ["--depth", "2"],
        ["--at", "peak"], ["--time", "0s..1s"]]
JSON = [["--json"], ["--json", "-n", "0"], ["--json", "--by", "allocated", "--frames", "table"], ["--json", "--heap"]]
# the blocks of a page are kept: each of these is asked for while those of the others are there
PAGE = [["--html", "PAGE"], ["--html", "PAGE", "--by", "calls"], ["--html", "PAGE", "-n", "3"], ["--html", "PAGE", "--all-frames"],
        ["--html", "PAGE", "--full-names"], ["--html", "PAGE", "--alloc-fn", "m*"], ["--html", "PAGE", "--source-root", "/"]]


def fail(why):
    print(why)
    sys.exit(1)


def run(*arguments):
    return subprocess.run([MALLOW, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def report(path, how, *options):
    """What a report says, or the text of its page."""
    page = path + ".html"
    out = run("report", "--index", how, *[page if o == "PAGE" else o for o in options], path)
    if out.returncode:
        fail("%s %s: status %d: %s" % (path, options, out.returncode, out.stderr.decode()[-500:]))
    if "PAGE" in options:
        with open(page, "rb") as f:
            return f.read()
    return out.stdout


def content(path):
    with open(path, "rb") as f:
        return f.read()


def put(path, data):
    with open(path, "wb") as f:
        f.write(data)


def parts(data):
    """(offset, end, kind) of each part of the index."""
    out, before = [], 0
    for head, _, _ in read_mallow.sections(data):
        if head["type"] == 7:
            out.append((before, head["end"], head["number"]))
        before = head["end"]
    return out


def of_turn(what, turn, turns):
    """What this recording takes of it."""
    return [w for i, w in enumerate(what) if LONG or i % turns == turn % turns]


def same_reports(path, data, turn):
    """Returns the recording with its index."""
    put(path, data)
    asked = TEXT + JSON + PAGE
    asked = [[], *of_turn(asked[1:], turn, len(RECORDINGS) + 1)] if SANITIZED else asked  # each is asked of one
    wanted = {tuple(o): report(path, "never", *o) for o in asked}
    if content(path) != data:
        fail("%s: --index never has written to it" % path)
    report(path, "auto")
    if content(path) != data:
        fail("%s: a small recording has got an index" % path)
    for options, want in of_turn(wanted.items(), turn, 3):
        put(path, data)
        first = report(path, "always", *options)
        second = report(path, "always", *options)
        if first != want or second != want:
            fail("%s: the report %s with an index is another" % (path, " ".join(options)))
    put(path, data)
    for again in range(2):
        for options, want in wanted.items():
            if report(path, "always", *options) != want:
                fail("%s: the report %s is another, round %d" % (path, " ".join(options), again))
    with_index = content(path)
    if with_index[:len(data)] != data or 1 not in [kind for _, _, kind in parts(with_index)]:
        fail("%s: there is no index behind the recording" % path)
    if report(path, "never") != wanted[()] or report(path, "auto") != wanted[()]:
        fail("%s: an index changes what is read without it" % path)
    return with_index


def read_by_others(path, data):
    """The second reader finds the same events, and the index adds up to what they say."""
    put(path, data)
    reader = [sys.executable, read_mallow.__file__]
    index = subprocess.run([*reader, "index", path], stdout=subprocess.PIPE, check=True).stdout.split(b"\n")
    if len([line for line in index if line]) != len(parts(data)):
        fail("%s: the second reader finds another index" % path)
    return [subprocess.run([*reader, what, path], stdout=subprocess.PIPE, check=True).stdout
            for what in ("events", "facts")]


def cut(path, data, with_index, turn):
    """Killed while it wrote: at any byte."""
    put(path, data)
    want = report(path, "never", "--json", "-n", "2")
    dice = random.Random(1)
    anywhere = sorted({dice.randrange(len(data), len(with_index)) for _ in range(40)})
    ends = {end for _, end, _ in parts(with_index)}
    turn, turns = (5 * turn, 60) if SANITIZED else (turn, 12)
    ends |= {*of_turn(range(len(data), len(data) + 80), turn, turns), *of_turn(anywhere, turn, turns)}
    for end in sorted(ends):
        put(path, with_index[:end])
        if report(path, "auto", "--json", "-n", "2") != want:
            fail("%s: cut at %d, %d bytes into the index, it reads as something else" % (path, end, end - len(data)))
    put(path, with_index[:len(data) + 30])
    report(path, "always")
    if parts(content(path))[0][0] != len(data) or report(path, "auto", "--json", "-n", "2") != want:
        fail("%s: what was cut did not make room for a whole index" % path)


def seal(part):
    """The part with its checksums put right, as one who means harm would."""
    part = bytearray(part)
    streams, head = struct.unpack_from("<HI", part, 6)
    at = head
    for i in range(streams):
        entry = 64 + 16 * i
        stored = struct.unpack_from("<I", part, entry + 8)[0]
        check = read_mallow.checksum(0, bytes(part[at:at + stored])) & 0xFFFFFFFF
        struct.pack_into("<I", part, entry + 12, check)
        at += stored
    part[24:32] = bytes(8)
    struct.pack_into("<Q", part, 24, read_mallow.checksum(0, bytes(part[:head])))
    return bytes(part)


def lie(path, data, with_index, rounds):
    """Bytes of an index that are others, with sound checksums: any status but a signal, and no endless output."""
    dice = random.Random(2)
    list_of = parts(with_index)
    for i in range(rounds):
        begin, end, _ = list_of[dice.randrange(len(list_of))]
        part = bytearray(with_index[begin:end])
        streams = struct.unpack_from("<H", part, 6)[0]
        payload = 64 + 16 * streams
        for _ in range(1 + dice.randrange(3)):
            if dice.randrange(3):
                part[dice.randrange(payload, len(part))] = dice.randrange(256)
            else:  # of a stream: its id, part, codec, raw bytes
                part[64 + 16 * dice.randrange(streams) + dice.randrange(8)] = dice.choice([0, 1, 2, 8, 255])
        put(path, with_index[:begin] + seal(part) + with_index[end:])
        page = [["--html", path + ".html"]] if LONG or not i % 3 else []  # takes longest
        for options in ([], ["--json"], *page):
            out = run("report", *options, path)
            if out.returncode < 0 or out.returncode > 128 or b"Sanitizer" in out.stderr:
                fail("%s: a lying index, round %d, %s: status %d: %s" %
                     (path, i, options, out.returncode, out.stderr.decode()[-2000:]))
    damaged = bytearray(with_index)
    for begin, end, _ in list_of:
        damaged[(begin + 2 * end) // 3] ^= 4
    put(path, data)
    want, document = report(path, "never"), report(path, "never", "--json")
    put(path, damaged)
    if report(path, "auto") != want or report(path, "auto", "--json") != document:
        fail("%s: a damaged index is not as none" % path)


def of_another(path, one, other):
    """The index of another recording, and of another version of the program, does not count."""
    put(path, other)
    want = report(path, "never", "--json")
    first = parts(one)[0][0]
    put(path, other + one[first:])
    if report(path, "auto", "--json") != want:
        fail("%s: the index of another recording answers" % path)
    report(path, "always")
    if len(content(path)) > len(other) + 8 * (len(one) - first) or report(path, "auto", "--json") != want:
        fail("%s: the index of another recording is still there" % path)


def not_written(path, data):
    """Read-only, another user's, locked, torn, and with something else behind."""
    def unchanged(why, now):
        before = content(path)
        report(path, "always")
        if content(path) != before or before != now:
            fail("%s: %s, it was written" % (path, why))
    put(path, data)
    os.chmod(path, 0o444)
    unchanged("read-only", data)
    os.chmod(path, 0o644)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        unchanged("of another user", data)
        os.chown(path, 0, 0)
    with open(path, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        unchanged("locked", data)
    put(path, data[:-3])
    unchanged("torn", data[:-3])
    put(path, data + b"something else")
    unchanged("with something behind", data + b"something else")


def killed(path, data):
    """A report that is killed while it works leaves what it found."""
    put(path, data)
    want = report(path, "never")
    for wait in range(12):
        put(path, data)
        with subprocess.Popen([MALLOW, "report", "--index", "always", path], stdout=subprocess.DEVNULL) as p:
            for _ in range(1 << wait):
                pass
            p.send_signal(signal.SIGKILL)
        if content(path)[:len(data)] != data or report(path, "auto") != want:
            fail("%s: a kill changed it" % path)


def main():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "recording.mlw")
        made = os.path.join(directory, "made.mlw")
        subprocess.run([MALLOW, "record", "-q", "-o", made, "--", PROGRAM], check=True, stdout=subprocess.DEVNULL)
        recordings = [content(r) for r in [*RECORDINGS, made]]
        indexed = [same_reports(path, data, turn) for turn, data in enumerate(recordings)]
        for data, with_index in zip(recordings[:2], indexed):
            if shutil.which("zstd") and read_by_others(path, data) != read_by_others(path, with_index):
                fail("%s: the second reader finds other events" % path)
        for turn, (data, with_index) in enumerate(zip(recordings, indexed)):
            cut(path, data, with_index, turn)
        kinds = {kind for with_index in indexed for _, _, kind in parts(with_index)}
        if kinds != {1, 2, 3}:
            fail("parts of the kinds %s were made" % kinds)
        for data, with_index in zip(recordings, indexed):
            lie(path, data, with_index, 12)
        of_another(path, indexed[0], recordings[1])
        not_written(path, recordings[0])
        killed(path, recordings[-1])
    print("ok: %d recordings, parts of the kinds %s" % (len(recordings), sorted(kinds)))


if __name__ == "__main__":
    main()
