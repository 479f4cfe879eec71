"""A second reader of the segments of libmallow-watch.so (src/format/watch.h), for the tests.

Run on a file, it prints what is in it. Everything is read once, from a copy of the file's bytes, so
that a test sees one moment; torn() counts the records that were being written just then."""
import glob
import os
import struct
import sys

MAGIC = 0x3148435457574C4D
STATES = {0: "starting", 1: "live", 2: "exited", 3: "exec"}
ERRORS = {1: "heap-buffer-overflow", 2: "heap-buffer-underflow", 3: "heap-use-after-free", 4: "double-free",
          5: "invalid-free"}
COUNTERS = ["drawn_bytes", "samples", "sample_bytes", "sample_weight", "frees", "free_bytes", "free_weight",
            "reallocs", "guarded", "dropped_full", "dropped_memory", "crowded", "dropped_nested",
            "dropped_weight", "no_stack", "errors", "evicted_sites", "own_bytes", "kept_bytes"]
FRAMES = 56
SETTINGS = 272  # offset of struct mlw_watch_settings; what stands before has fixed places too


class Segment:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.b = f.read()
        b = self.b
        magic, self.version, state, self.pid, self.ppid = struct.unpack_from("<QIIII", b, 0)
        if magic != MAGIC or self.version != 1:
            raise ValueError(f"{path}: no segment")
        self.state = STATES[state]
        self.start_ns, _, self.forked_from, self.trouble, self.exit_status = struct.unpack_from("<QQQII", b, 24)
        self.file_bytes, self.range_start, self.range_end = struct.unpack_from("<QQQ", b, 56)
        t = struct.unpack_from("<12I", b, 80)
        (self.n_modules, self.o_modules, self.n_sites, self.o_sites, self.n_samples, self.o_samples, self.n_frees,
         self.o_frees, self.n_errors, self.o_errors, self.samples_used, self.guard_slots) = t
        self.next_free, self.next_error = struct.unpack_from("<QQ", b, 128)
        self.period_now = struct.unpack_from("<Q", b, 144)[0]
        self.unguarded = struct.unpack_from("<I", b, 164)[0]
        (self.epoch, self.enabled, self.period, self.guard_share, self.on_error,
         self.reader_pid, self.guard_side) = struct.unpack_from("<IIQIIII", b, SETTINGS)
        self.counters = dict(zip(COUNTERS, struct.unpack_from(f"<{len(COUNTERS)}Q", b, SETTINGS + 64)))
        self.exe = b[SETTINGS + 320:SETTINGS + 320 + 1024].split(b"\0")[0].decode()
        self.command = b[SETTINGS + 1344:SETTINGS + 2368].rstrip(b"\0").decode(errors="replace").split("\0")
        self.torn = 0

    def _versioned(self, offset):
        v = struct.unpack_from("<I", self.b, offset)[0]
        self.torn += v & 1
        return v if v and not v & 1 else 0

    def modules(self):
        for i in range(self.n_modules):
            at = self.o_modules + 512 * i
            if self._versioned(at):
                state, start, end, bias, since, gone, n = struct.unpack_from("<IQQQQQI", self.b, at + 4)
                yield {"id": i + 1, "state": state, "start": start, "end": end, "bias": bias,
                       "build_id": self.b[at + 56:at + 56 + n].hex(),
                       "path": self.b[at + 88:at + 512].split(b"\0")[0].decode()}

    def _stack(self, at):
        n, flags = struct.unpack_from("<II", self.b, at)
        return {"flags": flags, "frames": list(struct.unpack_from(f"<{min(n, FRAMES)}Q", self.b, at + 8))}

    def site(self, i):
        at = self.o_sites + 576 * i
        v = self._versioned(at)
        live = struct.unpack_from("<I", self.b, at + 4)[0]
        f = struct.unpack_from("<12Q", self.b, at + 8)
        names = ["hash", "samples", "bytes", "weight", "blocks_q8", "freed_samples", "freed_bytes", "freed_weight",
                 "freed_blocks_q8", "freed_byte_us", "freed_elsewhere", "used_ns"]
        return dict(zip(names, f), index=i, version=v, live=live, stack=self._stack(at + 120))

    def sites(self):
        return [s for s in (self.site(i) for i in range(self.n_sites)) if s["version"]]

    def samples(self):
        out = []
        for i in range(self.samples_used):
            at = self.o_samples + 64 * i
            if not self._versioned(at):
                continue
            v = struct.unpack_from("<IIQQQQQIIII", self.b, at)
            s = dict(zip(["version", "flags", "address", "size", "weight", "drawn", "time_ns", "site", "tid",
                          "site_version", "align"], v))
            if s["flags"] & 1:
                out.append(s)
        return out

    def frees(self):
        out = []
        for i in range(self.n_frees):
            at = self.o_frees + 96 * i
            if self._versioned(at):
                v = struct.unpack_from("<IIQQQQQQQIIIIII", self.b, at)
                out.append(dict(zip(["version", "kind", "number", "address", "size", "weight", "allocated_ns",
                                     "freed_ns", "new_size", "site", "site_version", "free_site",
                                     "free_site_version", "allocated_tid", "freed_tid"], v)))
        return sorted(out, key=lambda f: f["number"])

    def errors(self):
        out = []
        for i in range(self.n_errors):
            at = self.o_errors + 1536 * i
            if self._versioned(at):
                v = struct.unpack_from("<IIQIIQQQQqQQIII", self.b, at)
                e = dict(zip(["version", "kind", "number", "flags", "signal", "time_ns", "access_address",
                              "address", "size", "offset", "allocated_ns", "freed_ns", "tid", "allocated_tid",
                              "freed_tid"], v))
                e["kind"] = ERRORS[e["kind"]]
                e["write"], e["at_free"], e["guarded"], e["at_end"] = (bool(e["flags"] & bit) for bit in (1, 2, 4, 32))
                for k, name in enumerate(["access", "allocation", "release"]):
                    e[name] = self._stack(at + 168 + 456 * k)
                out.append(e)
        return sorted(out, key=lambda e: e["number"])

    def places(self, stack):
        """(path, address in the file's headers) of each frame, innermost first."""
        modules = {m["id"]: m for m in self.modules()}
        out = []
        for f in stack["frames"]:
            pc, m = f & ((1 << 47) - 1), modules.get(f >> 48)
            if not f & (1 << 47):
                pc -= 1
            out.append((m["path"], pc - m["bias"]) if m else (None, pc))
        return out


def find(pid, folder="/dev/shm"):
    return sorted(glob.glob(os.path.join(folder, f"mallow-watch-{pid}-[0-9]*")))


def main():
    s = Segment(sys.argv[1])
    print(vars(s) | {"b": len(s.b)})
    for name in ("modules", "sites", "samples", "frees", "errors"):
        for row in list(getattr(s, name)())[:int(sys.argv[2]) if len(sys.argv) > 2 else 10]:
            print(name, row)


if __name__ == "__main__":
    main()
