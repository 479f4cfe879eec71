"""The lines of `mallow watch --json` are what docs/watch.schema.json says."""
import copy
import signal
import unittest

from mallowtest.fakes import Fake, Watch
from mallowtest.schema import Schema


class Lines(Schema, unittest.TestCase):
    NAME = "watch"

    def test_lines(self):
        with Fake() as fake:
            fake.tell("alloc 30 1000 525000 60000 0 5", "alloc 300 100 524338 0 1 6", "dropped 4")
            with Watch("--every", "100ms", "--old", "50s", "-p", str(fake.pid)) as watch:
                old = watch.next("old")
                watch.signal(signal.SIGHUP)
                self.agrees(watch.next("all"))
                fake.tell("free 2 0 30 9", "free 1 1 5000 5")
                watch.signal(signal.SIGUSR2)
                self.agrees(watch.next("frees"))
        self.agrees(old)
        for change in (lambda d: d.update(new_key=1), lambda d: d.update(pid="7"), lambda d: d["sites"][0].update(x=1),
                       lambda d: d["sites"][0].update(growth_bytes=0.5), lambda d: d.update(dropped=-1)):
            wrong = copy.deepcopy(old)
            change(wrong)
            self.assertEqual(len(self.complaints(wrong)), 1)


if __name__ == "__main__":
    unittest.main()
