"""The JSON of `mallow heap` is what docs/heap.schema.json says."""
import copy
import os
import unittest

from heaptest import HeapTest, tool
from mallowtest.schema import Schema


class Heap(Schema, HeapTest):
    NAME = "heap"

    def test_documents(self):
        p = self.start(tool("victim_leaks"), "50")
        document = self.heap_json(p.pid)
        self.agrees(document)
        leak = document["unreachable"][0]["address"]
        for way in ("--why", "--who"):
            self.agrees(self.heap_json(way, leak, p.pid))
        saved = os.path.join(self.folder, "heap.mlh")
        self.heap("-o", saved, p.pid)
        self.agrees(self.heap_json(saved))
        self.agrees(self.heap_json("--diff", saved, saved))

    def test_can_fail(self):
        document = self.heap_json(self.start(tool("victim_leaks"), "1").pid)
        for change in (lambda d: d.update(new_key=1), lambda d: d.update(pid="7"), lambda d: d["types"][0].update(x=1),
                       lambda d: d["arenas"][0].pop("main"), lambda d: d["arenas"][0].update(address="12"),
                       lambda d: d.update(blocks=-1)):
            wrong = copy.deepcopy(document)
            change(wrong)
            self.assertEqual(len(self.complaints(wrong)), 1)


if __name__ == "__main__":
    unittest.main()
