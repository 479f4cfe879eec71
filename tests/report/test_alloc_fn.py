"""--alloc-fn: the callers of a function that allocates for them are the call sites."""
import unittest

from mallowtest import mallow, path, program, report

POOLED = program("report/pooled")
OLD, NEW = (path(name) for name in ("old.mlw", "new.mlw"))
OF_POOLS = {"pool_get": (15, 2500)}
OF_CALLERS = {"parse": (10, 1000), "draw": (5, 1500)}


def setUpModule():
    for file, more in ((OLD, "0"), (NEW, "20")):
        mallow("record", "-q", "-o", file, "--", POOLED, more)


def sites(*options):
    """Blocks and bytes at the end by call site."""
    found = {}
    [process] = report(OLD, *options)["processes"]
    for site in process["sites"]:
        function = site["frames"][site["call_site"]]["function"]
        blocks, size = found.get(function, (0, 0))
        found[function] = (blocks + site["end_live_blocks"], size + site["end_live_bytes"])
    return found


class AllocFn(unittest.TestCase):
    def test_json(self):
        self.assertEqual(sites(), OF_POOLS)
        self.assertEqual(sites("--alloc-fn", "pool_*"), OF_CALLERS)
        self.assertEqual(sites("--alloc-fn", "pool_get", "--alloc-fn", "/^pool_many$/"), OF_CALLERS)
        self.assertEqual(sites("--alloc-fn", "pool_get"), {"pool_many": (15, 2500)})
        self.assertEqual(sites("--alloc-fn", "other"), OF_POOLS)

    def test_text(self):
        text = mallow("report", "--by", "end", "--alloc-fn", "pool_*", OLD).stdout
        self.assertRegex(text, r"(?m)^ 1 +1\.5 KB .*\n +draw .*via pool_many")
        self.assertIn("2 call sites", text)

    def test_index(self):
        """What is kept in the recording is not mistaken for what was asked."""
        for options, want in (((), OF_POOLS), (("--alloc-fn", "pool_*"), OF_CALLERS)) * 2:
            self.assertEqual(sites("--index", "always", *options), want)
            page = path("page.html")
            never = path("never.html")
            mallow("report", "--index", "always", *options, "--html", page, OLD)
            mallow("report", "--index", "never", *options, "--html", never, OLD)
            with open(page, "rb") as a, open(never, "rb") as b:
                self.assertEqual(a.read(), b.read())

    def test_diff(self):
        grown = {}
        for options in ((), ("--alloc-fn", "pool_*")):
            text = mallow("diff", "--by", "end", *options, OLD, NEW).stdout
            grown[bool(options)] = text
        self.assertIn("pool_get", grown[False])
        self.assertRegex(grown[True], r"draw")
        self.assertRegex(grown[True], r"parse")

    def test_bad(self):
        self.assertIn("--alloc-fn: the pattern is empty", mallow("report", "--alloc-fn", "", OLD, status=2).stderr)
        self.assertIn("--alloc-fn: '/(/' is not", mallow("diff", "--alloc-fn", "/(/", OLD, NEW, status=2).stderr)
        self.assertIn("--alloc-fn: '/(/' is not", mallow("watch", "--alloc-fn", "/(/", "--", POOLED, status=2).stderr)
