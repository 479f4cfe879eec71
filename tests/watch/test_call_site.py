"""A call site is one thing: that of `report` is that of `watch`, in JSON and in text."""
import json
import os

from mallowtest import MALLOW, Case, main, run, victim


def name(frame):
    return frame.get("function") or frame.get("address"), os.path.basename(frame.get("file") or ""), frame.get("line")


class CallSite(Case):
    def test_of_report_and_watch(self):
        path = os.path.join(self.dir, "r.mlw")
        self.assertEqual(run([MALLOW, "record", "-q", "-o", path, "--", victim("sites")]).rc, 0)
        [recorded] = json.loads(run([MALLOW, "report", "--json", path]).out)["processes"]
        truth = {name(s["frames"][s["call_site"]]) for s in recorded["sites"] if s["end_live_blocks"]}
        watched = run([MALLOW, "watch", "--json", "--every", "1h", "--period", "1", "--", victim("sites")])
        final = json.loads(watched.out.splitlines()[-1])
        self.assertEqual({name(s["frames"][s["call_site"]]) for s in final["sites"]}, truth)
        self.assertGreater(len(truth), 5)

    def test_a_row_is_a_call_site(self):
        """malloc in one_path is called on two ways."""
        said = run([MALLOW, "watch", "--every", "1h", "--period", "1", "--", victim("sites")]).err.decode()
        self.assertEqual(said.count("    one_path("), 1, said)
        self.assertIn("  1.6 KB in 10 blocks, 10 sampled", said)
        self.assertIn("    and 400 B in 1 more stack with this call site\n", said)


if __name__ == "__main__":
    main()
