"""`probe --where`, `--by` a thread's own keys, and `--hist`: on programs whose events are known one by one."""
import os
import random

from probing import Case, main, mallow, victim

# What `memory_victim brk` does, an event each: grown, released.
HEAP = [(65536, 0)] * 10 + [(4096, 0)] * 5 + [(0, 32768)] * 2
# Each comparison beside what it says of an event.
HEAP_TERMS = [("grown_bytes>=64K", lambda e: e[0] >= 65536), ("grown>4096", lambda e: e[0] > 4096),
              ("grown_bytes<=4K", lambda e: e[0] <= 4096), ("released_bytes==32768", lambda e: e[1] == 32768),
              ("released", lambda e: e[1] != 0), ("grown_bytes!=0x10000", lambda e: e[0] != 65536),
              ("grown<1", lambda e: e[0] < 1), ('function=="brk"', lambda e: True), ('function!="brk"', lambda e: False),
              ('comm=="memory_victim"', lambda e: True), ('comm~"memo*"', lambda e: True), ('comm!~"x*"', lambda e: True),
              ('comm=="memory"', lambda e: False), ("pid>1", lambda e: True), ("uid!=0", lambda e: False)]


def expression(dice, leaves):
    """A random condition of so many comparisons, and what it says of an event."""
    if leaves == 1:
        text, truth = dice.choice(HEAP_TERMS)
        if dice.random() < 0.2:
            return f"!{'' if '(' in text else '('}{text})", lambda e: not truth(e)
        return text, truth
    left = dice.randint(1, leaves - 1)
    (a, of_a), (b, of_b) = expression(dice, left), expression(dice, leaves - left)
    if dice.random() < 0.5:
        return f"({a}) && ({b})", lambda e: of_a(e) and of_b(e)
    return f"({a} || {b})", lambda e: of_a(e) or of_b(e)


class Where(Case):
    def heap(self, where):
        document = self.probe("brk", "--by", "none", "--where", where, "--", victim("memory_victim"), "brk")
        self.assertEqual(document["where"], where)
        return document["calls"], document["grown_bytes"], document["released_bytes"]

    def expected(self, truth):
        kept = [e for e in HEAP if truth(e)]
        return len(kept), sum(e[0] for e in kept), sum(e[1] for e in kept)

    def test_each_comparison(self):
        for text, truth in HEAP_TERMS:
            with self.subTest(text):
                self.assertEqual(self.heap(text), self.expected(truth))

    def test_precedence(self):
        self.assertEqual(self.heap("grown==4K || grown==64K && uid!=0"), (5, 5 * 4096, 0))
        self.assertEqual(self.heap("(grown==4K || grown==64K) && uid!=0"), (0, 0, 0))
        self.assertEqual(self.heap("!grown==4K"), self.expected(lambda e: e[0] != 4096))

    def test_random_conditions(self):
        dice = random.Random(35)
        for n in [2, 3, 5, 8, 12, 16] * 4:
            text, truth = expression(dice, n)
            with self.subTest(text):
                self.assertEqual(self.heap(text), self.expected(truth))

    def test_events_by_name(self):
        document = self.probe("purge", "--by", "function", "--where", 'function=="madvise(MADV_FREE)" || failed_calls',
                              "--", victim("memory_victim"), "purge")
        found = {g["function"]: (g["calls"], g["failed_calls"]) for g in document["stacks"]}
        self.assertEqual(found, {"madvise(MADV_FREE)": (3, 0), "madvise(MADV_DONTNEED)": (4, 4)})
        # a key that is looked at and makes no rows
        document = self.probe("purge", "--by", "process", "--where", 'function!="munmap"', "--", victim("memory_victim"), "purge")
        self.assertEqual(len(document["stacks"]), 1, document["stacks"])

    def test_faults(self):
        run = ["sh", "-c", f"exec {victim('memory_victim')} faults >/dev/null"]
        for where, least, most in [('access=="copy on write"', 100, 200), ('access=="copy on write" && mapping=="[anonymous]"', 100, 110),
                                   ('mapping~"memory_victim*" && major', 1, 64), ("address<4096", 0, 0)]:
            with self.subTest(where):
                document = self.probe("faults", "--by", "process", "--where", where, "--", *run, input="g")
                self.assertTrue(least <= document["minor"] + document["major"] <= most, document)

    def test_sizes(self):
        whole = self.probe("sizes", "--", victim("calls_victim"))
        large = self.probe("sizes", "--where", "bytes>=1024", "--", victim("calls_victim"))
        self.assertEqual(large["histogram"], [h for h in whole["histogram"] if h["min_bytes"] >= 1024])
        self.assertEqual(self.probe("calls", "--where", 'comm=="other"', "--", victim("calls_victim"))["calls"], 0)

    def test_caches(self):
        def blocks(where):
            rows = self.probe("slab", "--by", "cache", "--where", where, "--", "sh", "-c", "ls / >/dev/null")["callers"]
            return {r["cache"] for r in rows}
        self.assertEqual(blocks('cache=="vm_area_struct"'), {"vm_area_struct"})
        self.assertEqual(blocks('cache=="kmalloc-64" || cache=="vm_area_struct"') - {"kmalloc-64"}, {"vm_area_struct"})
        all_of_kmalloc = blocks('cache~"kmalloc-*"')
        self.assertTrue(all_of_kmalloc and all(c.startswith("kmalloc-") for c in all_of_kmalloc), all_of_kmalloc)
        self.assertFalse(blocks('cache!~"kmal*"') & all_of_kmalloc)

    def test_processes(self):
        """Kinds that know the process alone: of two, one is kept. glibc's own probes do not see the victim's brk."""
        both = ["sh", "-c", f"ls -d / >/dev/null; {victim('memory_victim')} brk"]
        for kind in ("rss", "faults"):
            document = self.probe(kind, "--where", 'comm=="ls"', "--", *both)
            self.assertEqual({p["comm"] for p in document["processes"]}, {"ls"}, kind)
        document = self.probe("arenas", "--source", "calls", "--where", 'comm~"memory_*"', "--", *both)
        self.assertEqual([len(c["events"]) for c in document["children"] if c["events"]], [len(HEAP)])
        self.assertEqual(document["events"], [])

    def test_who(self):
        document = self.probe("brk", "--by", "parent,user,cpu", "--", victim("memory_victim"), "brk")
        self.assertEqual({g["uid"] for g in document["stacks"]}, {os.geteuid()})
        self.assertEqual(sum(g["calls"] for g in document["stacks"]), len(HEAP))
        self.assertTrue(all(g["ppid"] > 1 and 0 <= g["cpu"] < os.cpu_count() for g in document["stacks"]))
        parents = {g["ppid"] for g in document["stacks"]}
        self.assertEqual(len(parents), 1)
        text = mallow("probe", "brk", "--by", "parent,user", "--", victim("memory_victim"), "brk").stdout
        self.assertRegex(text, rf" parent \d+ user {os.geteuid()}\n")

    def test_histograms(self):
        document = self.probe("brk", "--hist", "grown_bytes", "--by", "function", "--", victim("memory_victim"), "brk")
        expected = [{"min_bytes": 0, "max_bytes": 0, "calls": 2, "grown_bytes": 0},
                    {"min_bytes": 4096, "max_bytes": 8191, "calls": 5, "grown_bytes": 20480},
                    {"min_bytes": 65536, "max_bytes": 131071, "calls": 10, "grown_bytes": 655360}]
        self.assertEqual([g["histogram"] for g in document["stacks"]], [expected])
        self.assertEqual(document["histogram"], expected)
        document = self.probe("purge", "--hist", "time_ns", "--by", "none", "--", victim("memory_victim"), "purge")
        self.assertEqual(sum(h["calls"] for h in document["histogram"]), document["calls"])
        self.assertEqual(sum(h["time_ns"] for h in document["histogram"]), document["time_ns"])
        self.assertTrue(all(h["min_ns"] * h["calls"] <= h["time_ns"] <= h["max_ns"] * h["calls"] for h in document["histogram"]))
        text = mallow("probe", "brk", "--hist", "grown_bytes", "--by", "none", "--", victim("memory_victim"), "brk").stdout
        self.assertRegex(text, r"\n *64\.0 KB \.\. 128\.0 KB +10 ")

    def test_stacks_of_kept_events_alone(self):
        """What is left out leaves no stack behind."""
        document = self.probe("brk", "--where", "released", "--", victim("memory_victim"), "brk")
        self.assertEqual(len(document["stacks"]), 1, document["stacks"])
        self.assertIn("shrink", [f["function"] for f in document["stacks"][0]["frames"]])

    def test_the_kernel_takes_the_longest(self):
        longest = " || ".join(f'cache=="no-such-cache-{i}"' for i in range(15)) + ' || cache=="vm_area_struct"'
        rows = self.probe("slab", "--by", "cache", "--where", longest, "--", "true")["callers"]
        self.assertEqual({r["cache"] for r in rows}, {"vm_area_struct"})


if __name__ == "__main__":
    main()
