"""The JSON of `mallow report` is what docs/report.schema.json says."""
import copy
import json
import os

from mallowtest import ROOT, Case, main, mallow, program
from mallowtest.schema import Schema

GOLDEN = [os.path.join(ROOT, "tests/trace/golden", name + ".sealed") for name in ("early", "forks", "kernel", "threads")]


def document(file, *options):
    return json.loads(mallow("report", "--json", *options, file).stdout)


class Report(Schema, Case):
    NAME = "report"

    def test_documents(self):
        for file in GOLDEN:
            for options in ([], ["--heap"], ["-n", "2"], ["--time", "0..1s", "--function", "m*"], ["--at", "end", "--all-frames"]):
                with self.subTest(file=file, options=options):
                    self.agrees(document(file, *options))

    def test_recorded(self):
        self.recorded([program("report/fragmented")])
        known = os.path.join(self.folder, "known")
        with open(known, "w", encoding="utf-8") as f:
            f.write("leak:main\n")
        self.agrees(document(self.file, "--heap", "--suppressions", known))

    def test_average_size(self):
        for p in document(GOLDEN[1])["processes"]:
            for s in [*p["sites"], p["left_out"]]:
                self.assertEqual(s["mean_bytes"], s["allocated_bytes"] // max(s["calls"], 1))

    def test_can_fail(self):
        whole = document(GOLDEN[1])
        for change in (lambda d: d.update(new_key=1), lambda d: d["processes"][0].update(events="7"),
                       lambda d: d["processes"][0]["sites"][0].update(x=1), lambda d: d.pop("events"),
                       lambda d: d["processes"][0]["thread_figures"][0].pop("tid"),
                       lambda d: d["processes"][0].update(events=-1)):
            wrong = copy.deepcopy(whole)
            change(wrong)
            self.assertEqual(len(self.complaints(wrong)), 1)


if __name__ == "__main__":
    main()
