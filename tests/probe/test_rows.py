"""The rows of a probe: what Linux does not report is in none of them, and rows that read the same are one."""
import json

from probing import Case, main, mallow, victim


def is_kmalloc(row):
    return row["cache"].startswith("kmalloc-")


class Live(Case):
    """`slab --live` of blocks that the kernel releases without a report: nodes of maps, which have sheaves since Linux 6.18,
    and what kfree_rcu() releases anywhere."""

    def live(self, what, *options):
        """Events may be lost: interrupts come while the kernel's side counts."""
        out = mallow("probe", "slab", "--live", "--json", *options, "--", victim("rows_victim"), what)
        self.assertEqual(out.returncode, 0, out.stderr)
        return [json.loads(line) for line in out.stdout.splitlines()] if "-i" in options else json.loads(out.stdout)

    def test_nodes_of_maps(self):
        with open("/proc/kallsyms", encoding="ascii") as f:
            if " __kfree_rcu_sheaf" not in f.read():
                self.skipTest("SKIPPED, LOUDLY: this kernel has no sheaves (since Linux 6.18)")
        for options in ([], ["--by", "cache"], ["--by", "command"]):
            document = self.live("maps", *options)
            nodes = [row for row in document["callers"] if row.get("cache") == "maple_node"]
            self.assertEqual(nodes, [])
            self.assertLess(sum(row["calls"] for row in document["callers"]), 3000)
            found = [row for row in document["not_known"] if row["cache"] == "maple_node"]
            self.assertGreater(sum(row["given_out_again"] for row in found), 500, document["not_known"])
            self.assertTrue(all(row["calls"] < 1 << 20 for row in found), found)
            self.assertTrue(all(row["reason"].startswith("Linux ") for row in found))
            self.assertIn("which do not report what kfree_rcu() releases", document["source"])

    def test_structures_of_undo(self):
        """Enough of them that some are given out again: 5,000 in a second."""
        document = self.live("undo", "--by", "caller,cache")
        self.assertLess(sum(row["calls"] for row in document["callers"] if is_kmalloc(row)), 1500, document["callers"])
        found = [row for row in document["not_known"] if is_kmalloc(row)]
        self.assertGreater(sum(row["calls"] + row["given_out_again"] for row in found), 3500, document["not_known"])

    def test_in_text(self):
        out = mallow("probe", "slab", "--live", "--", victim("rows_victim"), "undo")
        self.assertEqual(out.returncode, 0, out.stderr)
        table, rest = out.stdout.split("not known whether live, for Linux did not report every release: at most\n")
        self.assertIn("given again", rest.splitlines()[0])
        row = max((line.split() for line in rest.splitlines() if "kmalloc-" in line), key=lambda line: int(line[0].replace(",", "")))
        self.assertNotIn(f" {row[-2]} {row[-1]}", table)

    def test_intervals_are_levels(self):
        documents = self.live("files", "-i", "100ms")
        files = [sum(row["calls"] for row in d["callers"] if row["cache"] == "filp" and row["comm"] == "rows_victim") for d in documents]
        self.assertLess(max(files), 400, files)  # and not what is left of 0 less 300
        self.assertLess(files[-1], 20, files)


class Equal(Case):
    def unique(self, rows, *keys):
        texts = [json.dumps([row[k] for k in keys]) for row in rows]
        self.assertEqual([t for i, t in enumerate(texts) if t in texts[:i]], [])

    def test_two_instructions_of_one_line(self):
        document = self.probe("faults", "--by", "stack", "--", victim("rows_victim"), "touch")
        rows = [s for p in document["processes"] for s in p["stacks"]]
        self.unique(rows, "frames")
        self.assertEqual([row["minor"] for row in rows if row["frames"][0]["function"] == "touch_two"], [64])
        folded = mallow("probe", "faults", "--folded", "--", victim("rows_victim"), "touch").stdout.splitlines()
        self.assertEqual([line.split()[-1] for line in folded if line.rsplit(" ", 1)[0].endswith("touch_two")], ["64"])

    def test_two_places_of_one_function_of_the_kernel(self):
        for options in (["--by", "caller,cache"], ["--by", "command,caller"], ["--by", "caller"]):
            out = mallow("probe", "slab", "--json", *options, "--", victim("rows_victim"), "maps")
            rows = json.loads(out.stdout)["callers"]
            self.assertGreater(len(rows), 10)
            self.unique(rows, *[k for k in ("comm", "function", "cache") if k in rows[0]])
        out = mallow("probe", "slab", "--json", "--by", "kstack", "--", victim("rows_victim"), "maps")
        self.unique(json.loads(out.stdout)["callers"], "kernel_frames")


if __name__ == "__main__":
    main()
