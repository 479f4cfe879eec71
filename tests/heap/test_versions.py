"""Cores of programs under several versions of glibc, each with the list of its live blocks.

corpus/versions/NAME.core.xz is a kernel's core of victim_blocks with two threads, NAME.truth what it wrote. Those named
"large" ran with glibc.malloc.tcache_max=4000000: caches hold blocks of any size. To add one: run the victim under that
libc, in a directory of its own that is its root, with a stack limit of 128 KB and a coredump_filter of 0x31.
"""
import glob
import json
import lzma
import os
import struct

from test_walk import Checked

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "versions")
PT_LOAD, PT_NOTE, PF_W, NT_PRSTATUS = 1, 4, 2, 1
FS_BASE = 112 + 21 * 8  # of struct elf_prstatus


class Core:
    """The program headers of a core, and the bytes that they mean."""

    def __init__(self, data):
        self.data = bytearray(data)
        self.table, = struct.unpack_from("<Q", data, 32)
        self.count, = struct.unpack_from("<H", data, 56)

    def headers(self):
        for i in range(self.count):
            at = self.table + i * 56
            yield at, struct.unpack_from("<IIQQQQQQ", self.data, at)

    def threads(self):
        """The address of each thread's control block."""
        for _, (kind, _, offset, _, _, size, _, _) in self.headers():
            at = offset
            while kind == PT_NOTE and at < offset + size:
                name, desc, note = struct.unpack_from("<III", self.data, at)
                at += 12 + (name + 3 & ~3)
                if note == NT_PRSTATUS:
                    yield struct.unpack_from("<Q", self.data, at + FS_BASE)[0]
                at += desc + 3 & ~3

    def segment(self, address):
        for at, (kind, flags, offset, start, _, size, _, _) in self.headers():
            if kind == PT_LOAD and flags & PF_W and start <= address < start + size:
                return at, offset, start, size
        raise AssertionError(f"no segment holds {address:#x}")


class Versions(Checked):
    def stored(self, name):
        with lzma.open(os.path.join(CORPUS, name + ".core.xz")) as f:
            return f.read()

    def core(self, data):
        path = os.path.join(self.folder, "core")
        with open(path, "wb") as f:
            f.write(data)
        return path

    def test_every_version(self):
        names = sorted(os.path.basename(n)[:-8] for n in glob.glob(os.path.join(CORPUS, "*.core.xz")))
        self.assertGreaterEqual(len(names), 6)
        for name in names:
            with self.subTest(name):
                core = self.core(self.stored(name))
                self.check(core, os.path.join(CORPUS, name + ".truth"), 2, own=3, cached_mapped="large" in name)
                document = self.heap_json(core)
                self.assertEqual((document["verified"], document["read_whole"]), (True, True))
                self.assertEqual((document["unreachable_blocks"], document["unreachable"]), (0, []))

    def not_verified(self, data, reason):
        done = self.heap("--json", self.core(data))
        self.assertIn("could not be verified", done.stderr)
        self.assertRegex(done.stdout, f'"verified":false,"reason":"[^"]*{reason}')
        self.assertNotIn('"unreachable_blocks"', done.stdout)
        self.assertIs(json.loads(done.stdout)["read_whole"], False)
        saved = os.path.join(self.folder, "saved.mlh")
        self.heap("-o", saved, os.path.join(self.folder, "core"))
        again = self.heap_json(saved)
        self.assertEqual((again["verified"], again["read_whole"]), (False, False))

    def test_a_stack_of_zeros(self):
        """gcore leaves zeros behind a page that it cannot read: the guard that glibc 2.42 puts into a stack's mapping."""
        for name in ("glibc-2.31", "glibc-2.42"):
            core = Core(self.stored(name))
            _, offset, _, size = core.segment(list(core.threads())[-1])
            core.data[offset:offset + size] = bytes(size)
            self.not_verified(core.data, "the core lacks the memory of thread ")

    def test_memory_left_out(self):
        """The kernel leaves out what the process marked (MADV_DONTDUMP): a segment without bytes."""
        core = Core(self.stored("glibc-2.42"))
        blocks, _ = self.truth(os.path.join(CORPUS, "glibc-2.42.truth"))
        with_blocks = {core.segment(b)[0] for b in blocks} | {core.segment(t)[0] for t in core.threads()}
        tried = 0
        for at, (kind, flags, _, _, _, size, _, _) in core.headers():
            if kind != PT_LOAD or not flags & PF_W or not size or at in with_blocks:
                continue
            changed = Core(core.data)
            struct.pack_into("<Q", changed.data, at + 32, 0)
            done = self.heap("--json", self.core(changed.data), status=None)
            if done.returncode == 0 and "the core leaves out" in done.stdout:
                self.assertIn('"verified":false', done.stdout)
                self.assertNotIn('"unreachable_blocks"', done.stdout)
                tried += 1
        self.assertGreater(tried, 0)
