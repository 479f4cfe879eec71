"""A flight recorder's file against the whole recording of the same run: the window is the same, event by event,
and the blocks that were live when it began come first, with its stacks, times and threads."""
import json
import os
import re
import subprocess

from mallowtest import MALLOW, Test, program, run

CHURN = program("flight/churn")
REFOLD = program("flight/refold")


def events(path):
    """By process, in order; every event as a tuple, and its stack by names."""
    p = run([MALLOW, "dump", "--json", "--names", path])
    assert p.rc == 0, p.err
    found = {}
    for line in p.out.splitlines():
        e = json.loads(line)
        if "address" in e or e.get("call") or e["kind"] == "mark":
            found.setdefault(e["pid"], []).append(e)
    return found


def plain(e):
    """What must be equal; slots and numbers of stacks are the file's own. Times are compared apart: the
    rate of the clock comes from fewer readings."""
    return {k: v for k, v in e.items() if k not in ("slot", "stack", "image", "time_ns")}


class Fold(Test):
    def path(self, name):
        return os.path.join(self.folder, name)

    def compare(self, argv, steps, last):
        """A thread that got no processor until the end has its first rows at the end of the file: until then
        nothing could be folded. So there are some tries."""
        for _ in range(10):
            whole, part, carried, out = self.compare_once(argv, steps, last)
            folds, released = map(int, re.match(r"(\d+) folds, (\d+) of", out).groups())
            if carried > 100 and folds > 1 and released:
                return whole, part
        self.fail(f"{carried} blocks were carried: {out}")

    def compare_once(self, argv, steps, last):
        raw = self.path("raw.mlw")
        if os.path.exists(raw):
            os.unlink(raw)
        p = run([MALLOW, "record", "-q", "--keep-raw", "-o", raw, "--", *argv])
        self.assertEqual(p.rc, 0, p.err)
        out = subprocess.run([REFOLD, raw, self.path("folded.mlw"), str(steps), str(last)], check=True,
                             capture_output=True, text=True).stdout
        whole, part = events(raw), events(self.path("folded.mlw"))
        self.assertTrue(part)
        carried = 0
        for pid, seen in part.items():
            carried += self.compare_image(whole[pid], seen)
        return whole, part, carried, out

    def compare_image(self, whole, seen):
        """How many of the events are carried ones."""
        live = {}
        wanted = [plain(e) for e in whole]
        got = [plain(e) for e in seen]
        for i in range(len(whole) + 1):
            if len(live) + len(whole) - i == len(seen) and got[len(live):] == wanted[i:]:
                break
            if i < len(whole):
                e = whole[i]
                if e["kind"] == "alloc":
                    live[e["slot"]] = e
                elif "slot" in e:
                    live.pop(e["slot"], None)
        else:
            self.fail("the window is no tail of the whole recording")
        was, first = list(live.values()), seen[:len(live)]
        by_address = lambda e: e["address"]
        was.sort(key=by_address)
        self.assertEqual(list(map(plain, sorted(first, key=by_address))), list(map(plain, was)))
        for a, b in zip(was + whole[i:], sorted(first, key=by_address) + seen[len(live):]):
            self.assertLess(abs(a["time_ns"] - b["time_ns"]), 2000 + a["time_ns"] // 100, (a, b))
        self.assertEqual([e["time_ns"] for e in first], sorted(e["time_ns"] for e in first))
        return len(first)

    def test_one_thread(self):
        self.compare([CHURN, 1, 10000], 7, 30)

    def test_threads(self):
        self.compare([CHURN, 4, 8000], 9, 30)

    def test_fork(self):
        whole, part = self.compare([CHURN, 2, 8000, "fork"], 8, 25)
        self.assertEqual(set(whole), set(part))

    def test_marks(self):
        """Those of the window are there, with their times."""
        _, part = self.compare([CHURN, 2, 10000, "mark=100"], 6, 30)
        (only,) = part.values()
        self.assertTrue([e for e in only if e["kind"] == "mark"])
