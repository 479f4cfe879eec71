"""Call sites of languages: their runtimes' allocators are looked through, and whole stacks of their coroutines are whole. Each on a
program that the language's own compiler makes here; one that is not installed is skipped."""
import json
import os
import shutil
import subprocess

from mallowtest import MALLOW, Test


ADA = """procedure A is
   type Arr is array (1 .. 100) of Integer;
   type P is access Arr;
   Keep : array (1 .. 500) of P with Volatile;
   procedure Fill is
   begin
      for I in Keep'Range loop
         Keep (I) := new Arr;
      end loop;
   end Fill;
begin
   Fill;
end A;
"""
PASCAL = """program p;
uses cmem;
var k: array[1..500] of pointer; i: integer;
procedure fill; begin for i := 1 to 500 do getmem(k[i], 400); end;
begin fill; end.
"""
OCAML = """let keep = ref []
let fill () = for _ = 1 to 200 do keep := Bytes.make 100000 'x' :: !keep done
let () = fill ()
"""
LUA = """local t = {}
for i = 1, 3000 do t[i] = ("%d"):format(i) .. "x" end
"""
RUBY = """a = (1..3000).map { |i| "x" * 1000 }
"""
R = """x <- lapply(1:300, function(i) numeric(10000))
"""
PHP = """<?php $a = []; for ($i = 0; $i < 3000; $i++) { $a[] = str_repeat("x", 1000) . $i; }
"""
BOOST = """#include <boost/coroutine2/all.hpp>
#include <cstdlib>
void *volatile kept;
__attribute__((noinline)) static void inner() { for (int i = 0; i < 100; i++) kept = malloc(1000); }
int main()
{
    typedef boost::coroutines2::coroutine<void> co;
    co::pull_type s([](co::push_type &yield) { inner(); yield(); inner(); });
    s();
}
"""
SPLIT = """#include <pthread.h>
#include <stdlib.h>
void *volatile kept;
__attribute__((noinline)) static void inner(int deep)
{
    volatile char room[3000];
    room[0] = (char)deep;
    if (deep)
        inner(deep - 1);
    else
        kept = malloc(1000);
    room[1] = 1;
}
static void *run(void *arg)
{
    for (int i = 0; i < 100; i++)
        inner(20);
    return arg;
}
int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, 0, run, 0) || pthread_join(thread, 0))
        return 1;
    run(0);
    return 0;
}
"""


class Languages(Test):
    def made(self, name, text, *command):
        """The program that the compiler makes of this text."""
        if not shutil.which(command[0]):
            self.skipTest(f"{command[0]} is not installed")
        with open(f"{self.folder}/{name}", "w", encoding="ascii") as f:
            f.write(text)
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            self.skipTest(f"{' '.join(command)}: " + (done.stdout + done.stderr).strip()[-300:])
        return [f"{self.folder}/prog"]

    def recorded(self, command, environment=os.environ):
        """The process of a recording that called most."""
        file = self.folder + "/r.mlw"
        done = subprocess.run([MALLOW, "record", "-q", "-o", file, "--", *command], cwd=self.folder, env=environment,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = subprocess.run([MALLOW, "report", "--json", "-n", "0", file], env=environment, capture_output=True, check=True).stdout
        return max(json.loads(said)["processes"], key=lambda p: p["allocations"])

    def sites(self, process):
        """Functions that allocated, with all bytes."""
        sums = {}
        for s in process["sites"]:
            name = s["frames"][s["call_site"]].get("function")
            sums[name] = sums.get(name, 0) + s["allocated_bytes"]
        return sums

    def test_ada(self):
        p = self.recorded(self.made("a.adb", ADA, "gnatmake", "-q", "-g", "-O1", "a.adb", "-o", "prog"))
        self.assertEqual(self.sites(p).get("a__fill"), 500 * 400)

    def test_pascal(self):
        p = self.recorded(self.made("p.pas", PASCAL, "fpc", "-g", "-O1", "-v0", "p.pas", "-oprog"))
        self.assertNotIn(True, [n.startswith(("CMEM", "SYSTEM")) for n in self.sites(p)])
        self.assertIn("main", self.sites(p))

    def test_ocaml(self):
        p = self.recorded(self.made("o.ml", OCAML, "ocamlopt", "-g", "o.ml", "-o", "prog"))
        site = max((s for s in p["sites"]), key=lambda s: s["allocated_bytes"])
        self.assertIn("fill", site["frames"][site["call_site"]]["function"])

    def interpreted(self, name, text, *command, **more):
        if not shutil.which(command[0]):
            self.skipTest(f"{command[0]} is not installed")
        with open(f"{self.folder}/{name}", "w", encoding="ascii") as f:
            f.write(text)
        return self.sites(self.recorded([*command, name], dict(os.environ, **more)))

    def test_stripped_interpreters(self):
        """Of what their distribution strips, the exported function is the call site, and no number."""
        for language, sites, name, least in (
                ("lua", lambda: self.interpreted("l.lua", LUA, "lua5.4"), "lua_pushlstring", 3000 * 20),
                ("ruby", lambda: self.interpreted("r.rb", RUBY, "ruby"), "rb_str_times", 2900 * 1000),
                ("R", lambda: self.interpreted("x.R", R, "Rscript"), "Rf_eval", 0),
                ("php", lambda: self.interpreted("p.php", PHP, "php", USE_ZEND_ALLOC="0"), "concat_function", 2900 * 1000)):
            with self.subTest(language):
                self.assertGreaterEqual(sites().get(name, -1), least)

    def test_coroutines_of_boost(self):
        p = self.recorded(self.made("c.cpp", BOOST, "g++", "-O1", "-g", "c.cpp", "-lboost_context", "-o", "prog"))
        self.assertNotIn("unwound", str(p["warnings"]))
        self.assertEqual(self.sites(p).get("inner()"), 200 * 1000)

    def test_split_stacks(self):
        p = self.recorded(self.made("s.c", SPLIT, "gcc", "-O1", "-g", "-fsplit-stack", "s.c", "-pthread", "-o", "prog"))
        self.assertNotIn("unwound", str(p["warnings"]))
        deep = [[f.get("function") for f in s["frames"]] for s in p["sites"] if s["frames"][0].get("function") == "inner"]
        self.assertEqual({(names.count("inner"), names.count("run"), "__morestack" in names) for names in deep}, {(21, 1, True)})
        self.assertEqual({names[-1] for names in deep}, {"run", "main"})
