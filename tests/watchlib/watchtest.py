"""What the tests of libmallow-watch.so share: programs run under it, and their segments."""
import glob
import os
import struct

from mallowtest import WATCH_LIBRARY, Case, run
from mallowtest.segment import Segment


class WatchCase(Case):
    """Each test has a session directory of its own: segments stay in it after their processes ended,
    because the maker of the directory (this process) is alive."""

    def setUp(self):
        super().setUp()
        self.session = os.path.join(self.folder, f"mallow-watch-session-{os.getpid()}-test")
        os.mkdir(self.session, 0o700)

    def env(self, library=WATCH_LIBRARY, **settings):
        e = {"MALLOW_WATCH_" + k.upper(): str(v) for k, v in settings.items()}
        return dict(e, LD_PRELOAD=library, MALLOW_WATCH_SESSION=self.session)

    def watched(self, argv, env=None, library=WATCH_LIBRARY, settings=None, broken=False, **kw):
        """Runs argv under the library; its segments are in self.segments, removed from the session."""
        r = run(argv, env=dict(env or {}, **self.env(library, **(settings or {}))), **kw)
        self.segments = self.take(broken)
        return r

    def take(self, broken=False):
        """broken: segments that were never finished are passed over."""
        paths, out = sorted(glob.glob(os.path.join(self.session, "*-*"))), []
        for p in paths:
            try:
                out.append(Segment(p))
            except (ValueError, struct.error):
                if not broken:
                    raise
        for p in paths:
            os.unlink(p)
        return sorted(out, key=lambda s: s.start_ns)

    def of(self, exe):
        return [s for s in self.segments if os.path.basename(s.exe) == exe]

    def sound(self, s, killed=False):
        """Sums of a segment agree with its tables. After a kill, a call of each thread may be half told."""
        slack = 64 if killed else 0
        sites, live = s.sites(), s.samples()
        c = s.counters
        self.assertLessEqual(s.torn, slack, s.exe)
        for name, total in (("samples", sum(x["samples"] for x in sites)),
                            ("frees", sum(x["freed_samples"] for x in sites))):
            if not c["evicted_sites"] and not s.forked_from and not s.trouble:
                self.assertLessEqual(abs(c[name] - total), slack, (name, s.exe, c))
        if not s.trouble & ~32:
            self.assertLessEqual(abs(c["samples"] - c["frees"] - len(live)), slack, (s.exe, c, len(live)))
        for x in live:
            # guarded blocks are the library's own, all others the allocator's; unless guards were lost
            if not s.trouble & 8:
                self.assertEqual(s.range_start <= x["address"] < s.range_end, bool(x["flags"] & 2))
            self.assertGreaterEqual(x["weight"], x["size"])
