"""The call site is the line that a developer of the language would name, whatever libraries stand between
it and malloc: tests/victims/names.*, and trampoline.c, which does what CPython does with -X perf."""
import os
import re
import shutil

from mallowtest import LONG, MALLOW, Case, pythons, run, source, victim


def lines(name):
    """{words behind SITE: line number}"""
    with open(source(name)) as f:
        return {m.group(1): number for number, text in enumerate(f, 1)
                if (m := re.search(r"(?://|#) SITE (\S+)", text))}


class Names(Case):
    def remove_map(self, program):
        """What the interpreter left in /tmp."""
        self.addCleanup(lambda: os.path.exists(p := f"/tmp/perf-{program['pid']}.map") and os.unlink(p))

    def sites(self, program):
        """{(function, line) of the call site: bytes allocated}"""
        sums = {}
        for s in program["sites"]:
            if s["frames"]:
                f = s["frames"][s["call_site"]]
                key = (f["function"], f["line"])
                sums[key] = sums.get(key, 0) + s["allocated_bytes"]
        return sums

    def expect(self, program, wanted):
        """wanted: (pattern of the function, line or None, bytes at least)."""
        sites = self.sites(program)
        for pattern, line, least in wanted:
            with self.subTest(pattern, line=line):
                got = sum(n for (f, at), n in sites.items() if re.fullmatch(pattern, f) and line in (None, at))
                self.assertGreaterEqual(got, least, sorted(sites.items(), key=lambda s: -s[1])[:30])

    def nothing_of(self, program, pattern, allowed):
        """No call site is the library's, but for what its start-up allocates."""
        bad = {f: n for (f, _), n in self.sites(program).items() if re.match(pattern, f)}
        self.assertLessEqual(sum(bad.values()), allowed, bad)

    # ---- C++ ----

    def cxx(self, name, with_lines):
        program = self.process(self.recorded([victim(name)]), name)
        at = lines("names.cpp")
        wanted = [(r"app::grow_vector\(int\)", "vector", 131072 + 65536),
                  (r"app::grow_string\(int\)", "string", 80000),
                  (r"app::fill_map\(int\)", "map", 48000),
                  (r"app::fill_table\(int\)", "table", 16000),
                  (r"(void )?app::share<app::Big>\(app::Big const&\)", "shared", 50000),
                  (r"app::coroutine.* \[clone \.(actor|resume)\]", "before", 30000),
                  (r"app::coroutine.* \[clone \.(actor|resume)\]", "after", 60000)]
        self.expect(program, [(f, at[word] if with_lines else None, least) for f, word, least in wanted])
        if with_lines:
            self.expect(program, [(r".*", at["lambda"], 70000), (r".*", at["thread"], 90000)])
        self.nothing_of(program, r"(.* )?(std|__gnu_cxx)::(?!_Function_handler|thread::_State_impl)", 0)

    def test_cxx(self):
        self.cxx("names_cxx", True)

    def test_cxx_not_optimized(self):
        self.cxx("names_cxx_debug", True)

    def test_cxx_without_debug_information(self):
        self.cxx("names_cxx_bare", False)

    def test_libcxx(self):
        self.cxx("names_libcxx", True)

    def test_cxx_says_what_was_called(self):
        self.record([victim("names_cxx")])
        text = run([MALLOW, "report", "--by", "allocated", "-n", "30", self.file]).out.decode()
        self.assertRegex(text, r"app::grow_vector \(\S*names\.cpp:\d+\)  via std::vector<")
        text = run([MALLOW, "report", "--all-frames", "--by", "allocated", "-n", "30", self.file]).out.decode()
        self.assertRegex(text, r"\n   std::__new_allocator<long>::allocate( \[inlined\])? \(")
        self.assertNotIn("  via ", text)

    def test_looks(self):
        """Short names, no frames of libc's start, paths below the sources; options for the rest."""
        def text(*options):
            return run([MALLOW, "report", "--by", "allocated", "-n", "30", "--depth", "50", *options,
                        self.file]).out.decode()
        program = self.process(self.recorded([victim("names_cxx")]), "names_cxx")
        plain = text()
        self.assertNotRegex(plain, r"std::allocator<long>|__cxx11|\[abi:|_start\b|_start_|clone3|start_thread")
        self.assertRegex(plain, r"\(names\.cpp:\d+\)")
        self.assertIn("std::string::operator+=", plain)
        self.assertNotIn("(char const*)", plain)
        self.assertIn("app::grow_vector(int)", text("--full-names"))
        self.assertRegex(text("--full-names"), r"std::__cxx11::basic_string<char, std::char_traits<char>, ")
        self.assertRegex(text("--start-frames"), r"(?s)__libc_start_.*clone")
        # the documents agree
        self.assertEqual(program["source_root"], os.path.dirname(source("names.cpp")))
        functions = {f["function"] for s in program["sites"] for f in s["frames"]}
        self.assertEqual([f for f in functions if re.search(r"\b_start|__libc_start|clone3", f)], [])
        self.assertIn("app::grow_vector(int)", functions)
        more = self.report(options=["--start-frames", "--full-names"])["processes"][0]
        everything = {f["function"] for s in more["sites"] for f in s["frames"]}
        self.assertIn("_start", everything)
        self.assertTrue(any("std::allocator<long>" in f for f in everything))
        parent = os.path.dirname(os.path.dirname(source("names.cpp")))
        self.assertRegex(text("--source-root", parent), r"\(victims/names\.cpp:\d+\)")
        self.assertRegex(text("--source-root", "/nonexistent"), r"\(names\.cpp:\d+\)")
        # stacks are known by what is shown of them, and by their whole names
        keeps = [s for s in program["sites"] if s["end_live_blocks"]][0]
        whole = [f["function"] for f in more["sites"][program["sites"].index(keeps)]["frames"]]
        for names in ([f["function"] for f in keeps["frames"]], whole):
            known = os.path.join(self.folder, "known")
            with open(known, "w") as f:
                f.write("stack:" + ";".join(names) + "\n")
            sites = self.report(options=["--suppressions", known])["processes"][0]["sites"]
            self.assertEqual(sum(s["suppressed"] for s in sites), 1, names)
        for pattern in ("std::vector<long>::push_back", "std::vector<long, std::allocator<long> >::push_back*"):
            self.assertGreater(self.report(options=["--function", pattern])["processes"][0]["requested_bytes"], 190000)

    # ---- Rust ----

    def rust(self, name, with_lines):
        program = self.process(self.recorded([victim(name)]), name)
        at = lines("names.rs")
        wanted = [(r"\w+::grow_vector", "vector", 131072 + 65536),
                  (r"\w+::fill_table", "table", 16000),
                  (r"\w+::fill_tree", "tree", 12000),
                  (r"\w+::collect_all", "collect", 40000),
                  (r"\w+::boxed", "boxed", 32000)]
        self.expect(program, [(f, at[word] if with_lines else None, least) for f, word, least in wanted])
        if with_lines:
            self.expect(program, [(r"(?s).*", at["thread"], 90000), (r".*::from", at["from"], 70000),
                                  (r".*::twice", at["twice"], 40000), (r".*::fmt", at["fmt"], 20000)])
        self.nothing_of(program, r"<*(std|core|alloc|hashbrown)::(?!.*(From<|closure))", 0)

    def test_rust(self):
        self.rust("names_rust", True)

    def test_rust_of_before(self):
        self.rust("names_rust_legacy", True)

    def test_rust_without_debug_information(self):
        self.rust("names_rust_bare", False)

    # ---- D ----

    def d(self, name):
        program = self.process(self.recorded([victim(name)]), name)
        at = lines("names.d")
        self.expect(program, [(r"names\.growArray\(int\)", at["array"], 160000)])
        self.nothing_of(program, r"std\.", 0)
        mapped = run([MALLOW, "report", self.file]).out.decode()
        # The collector's memory is mapped, by the function that asked for more of it.
        self.assertRegex(mapped, r"Mapped by the program itself(?s:.*)names\.collected\(int\)")

    def test_gdc(self):
        self.d("names_gdc")

    def test_ldc(self):
        self.d("names_ldc")

    # ---- scripts ----

    def test_trampolines(self):
        """Whole stacks through generated code that has no tables."""
        program = self.process(self.recorded([victim("trampoline"), source("names.py"), "500"]), "trampoline")
        self.remove_map(program)
        at = lines("names.py")
        expected = ["Parser.row", "Parser.rows", "outer.<locals>.inner"]
        blocks = [s for s in program["sites"] if s["frames"][0]["function"].startswith("evaluate")]
        self.assertEqual(sum(s["calls"] for s in blocks), 500)
        for s in blocks:
            self.assertEqual([f["function"] for f in s["frames"] if f.get("cut")], [])
            scripts = [f for f in s["frames"] if f["module"] == "[python]"]
            depth = len(scripts) - 1
            self.assertEqual([f["function"] for f in scripts],
                             [expected[i % 3] for i in range(depth)] + ["Parser.row"])
            self.assertIn("main", [f["function"] for f in s["frames"]])
            for f in scripts:
                self.assertEqual((f["file"], f["line"]), (source("names.py"), at.get(f["function"], f["line"])))
        self.assertEqual(sorted({len([f for f in s["frames"] if f["module"] == "[python]"]) for s in blocks}),
                         list(range(1, 51)))

    def test_python(self):
        found = pythons()
        if not found:
            self.skipTest("SKIPPED, LOUDLY: no Python from 3.12 on with -X perf")
        at = lines("names.py")
        for python in found if LONG else found[-1:]:
            with self.subTest(python):
                program = self.recorded([python, "-X", "perf", source("names.py")])["processes"][0]
                self.remove_map(program)
                self.expect(program, [(r"Parser\.row", at["Parser.row"], 600000),
                                      (r"outer\.<locals>\.inner", at["outer.<locals>.inner"], 500000),
                                      (r"through_library", at["through_library"], 200000),
                                      (r"twice", 0, 150000)])  # two functions have that name
                cut = sum(s["calls"] for s in program["sites"] if any(f.get("cut") for f in s["frames"]))
                self.assertEqual(cut, 0)
                for f in (f for s in program["sites"] for f in s["frames"] if f["function"] == "Parser.row"):
                    self.assertEqual((f["file"], f["module"]), (source("names.py"), "[python]"))

    def test_javascript(self):
        node = shutil.which("node") or shutil.which("nodejs")
        if not node:
            self.skipTest("SKIPPED, LOUDLY: no node")
        program = self.recorded([node, "--perf-basic-prof", "--interpreted-frames-native-stack", source("names.js")],
                                cwd=self.folder)["processes"][0]
        self.remove_map(program)
        self.expect(program, [(r"fill", lines("names.js")["fill"], 4900000)])
