"""kill -9 at a random moment: every event before it is in the report, `complete` is false.

MALLOW_KILLS says how often, for each of the three kinds of program (default 8); `make check-long` and
a release use 200."""
import mmap
import os
import random
import signal
import struct
import subprocess
import time

from mallowtest import LIBRARY, MALLOW, Case, victim

KILLS = int(os.environ.get("MALLOW_KILLS", "8"))
SEED = int(os.environ.get("MALLOW_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)


class Killed(Case):
    def one(self, threads, delay, by_hand=False):
        counts = os.path.join(self.folder, "counts")
        with open(counts, "wb") as f:
            f.write(bytes(4096))
        if os.path.exists(self.file):
            os.unlink(self.file)
        env = {k: v for k, v in os.environ.items() if not k.startswith("MALLOW_")}
        argv = [victim("killed"), counts, str(threads)]
        if by_hand:
            env.update(LD_PRELOAD=LIBRARY, MALLOW_OUTPUT=self.file)
        else:
            argv = [MALLOW, "record", "-o", self.file, "--", *argv]
        p = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with open(counts, "rb") as f, mmap.mmap(f.fileno(), 4096, prot=mmap.PROT_READ) as shared:
            end = time.monotonic() + 600
            while True:
                (pid,) = struct.unpack_from("<Q", shared, 8 * 511)
                if pid or time.monotonic() > end:
                    break
            self.assertTrue(pid, "the victim did not start")
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
            out, err = p.communicate(timeout=600)
            v = struct.unpack_from("<512Q", shared)
        self.assertEqual(p.returncode, -9 if by_hand else 137, err)
        self.assertEqual(out, b"")
        made, freed = [v[i * 8] for i in range(threads)], [v[i * 8 + 1] for i in range(threads)]
        context = f"seed {SEED}, {threads} threads, {delay * 1000:.3f} ms, made {made}, freed {freed}"
        doc = self.report()
        p = self.process(doc, "killed")
        self.assertIs(p["complete"], False, context)
        self.assertEqual(doc["lost_events"], 0, context)
        malloc, free = p["calls"].get("malloc", 0), p["calls"].get("free", 0)
        # Each thread may have been killed between its call's return and its counter, or inside free.
        self.assertLessEqual(sum(made), malloc, context)
        self.assertLessEqual(malloc, sum(made) + threads, context)
        self.assertLessEqual(sum(freed), free, context)
        self.assertLessEqual(free, sum(freed) + threads, context)
        self.assertEqual(p["unknown_frees"], 0, context)
        return malloc

    def several(self, threads, by_hand=False):
        r = random.Random(SEED + threads + by_hand)
        total = sum(self.one(threads, r.choice((r.uniform(0, 0.001), r.uniform(0, 0.03))), by_hand)
                    for _ in range(KILLS))
        self.assertGreater(total, 0)
        print(f"{KILLS} kills, {threads} thread(s), seed {SEED}: {total} mallocs before them, all there")

    def test_one_thread(self):
        self.several(1)

    def test_four_threads(self):
        self.several(4)

    def test_without_parent(self):
        self.several(1, by_hand=True)
