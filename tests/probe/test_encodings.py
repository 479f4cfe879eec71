"""Probes change nothing: a function for each encoding of a first instruction, alone and under a probe; and libraries
under `--function '*'`, in the process that is meant and in bystanders that have the same files."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from mallowtest import MALLOW
import first_instructions
from probing import Case, attached, main, mallow, reads, victim

NOT_PROVEN = "its first instruction is not known to work under a probe"
BECOMES_CALL = "Linux 6.18 replaces the nop at its start by a call, which can crash children that are forked later"
NOPS = ("e_0f1f440000", "e_660f1f4000")
# Opcodes whose ModRM byte says which instruction it is.
GROUPS = {"80", "81", "83", "8f", "c0", "c1", "c6", "c7", "d0", "d1", "d2", "d3", "d9", "db", "dd", "f6", "f7", "fe", "ff", "0fba",
          "0f71", "0f72", "0f73"}
FORMS = ("memory", "memory", "memory", "register")


def classes():
    """The encodings that the table allows, by what distinguishes them."""
    out = subprocess.run([victim("encodings_table"), "classes"], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        prefix, rex, opcode, reg, form = line.split()
        yield describe(prefix, rex, opcode, int(reg), form)


def describe(prefix, rex, opcode, reg, form):
    has_modrm = opcode.startswith("0f") and not (0x80 <= int(opcode[2:], 16) < 0x90 or 0xc8 <= int(opcode[2:], 16) < 0xd0) \
        or not opcode.startswith("0f") and int(opcode, 16) in first_instructions.MODRM
    return prefix, rex, opcode, reg if opcode in GROUPS else None, form if has_modrm else None


def tried(name):
    """The same of a function of the victim."""
    relative = "r" in name
    code, prefix, rex = bytes.fromhex(name[2:].replace("r", "")), "00", "-"
    at = 0
    if code[at] in (0x64, 0x66, 0xf2, 0xf3):
        prefix = f"{code[at]:02x}"
        at += 1
    if code[at] & 0xf0 == 0x40:
        rex = "rex"
        at += 1
    opcode = f"{code[at]:02x}"
    if code[at] == 0x0f:
        at += 1
        opcode += f"{code[at]:02x}"
    modrm = code[at + 1] if len(code) > at + 1 else 0
    return describe(prefix, rex, opcode, modrm >> 3 & 7, "relative" if relative or modrm & 0xc7 == 5 else FORMS[modrm >> 6])


class Table(unittest.TestCase):
    def test_all_that_it_allows_is_tried(self):
        out = subprocess.run([victim("encodings_victim")], capture_output=True, text=True, check=True).stdout
        known = {tried(line.split()[0]) for line in out.splitlines()}
        self.assertEqual(sorted(map(str, set(classes()) - known)), [])

    def test_what_it_says_of_code(self):
        answers = {"55": 1, "f30f1efa": 1, "4157": 1, "4883ec28": 1, "488b0512345678": 1, "64488b042528000000": 1, "e9": 1, "90": 1,
                   "62f17c4828c2": 0, "c5f96ec7": 0, "c4e1f97ec0": 0, "8fe878c0": 0, "f3a4": 0, "9c": 0, "0f05": 0, "0f0b": 0,
                   "f0ff07": 0, "2e8b07": 0, "66e80000": 0, "4990": 0, "0f1f440000": 0, "0f1f00": 1, "660f3a0fc108": 0, "": 1}
        out = subprocess.run([victim("encodings_table")], input="\n".join(answers) + "\n", capture_output=True, text=True,
                             check=True).stdout
        self.assertEqual(dict(zip(answers, map(int, out.split()))), {**answers, "": 1})


    def test_no_nop_of_five_bytes(self):
        """Its length is computed here from the rules of the processor."""
        codes = {}
        for prefix in (b"", b"\x66"):
            for modrm in range(0x00, 0x100):
                for sib in (0, 5) if modrm & 0xc7 in (0x04, 0x44, 0x84) else (None,):
                    mod, rm = modrm >> 6, modrm & 7
                    wide = mod == 2 or mod == 0 and (rm == 5 or sib == 5)
                    code = prefix + bytes([0x0f, 0x1f, modrm]) + (b"" if sib is None else bytes([sib])) + bytes(4 if wide else mod == 1)
                    codes[code.hex()] = len(code)
        out = subprocess.run([victim("encodings_table")], input="\n".join(codes) + "\n", capture_output=True, text=True, check=True).stdout
        allowed = [code for code, answer in zip(codes, out.split()) if answer == "1"]
        self.assertIn(4, {codes[c] for c in allowed})
        self.assertEqual([c for c in allowed if codes[c] == 5], [])


class Encodings(Case):
    def probed(self, program, functions):
        """How the program ended with probes on these functions of its own, and the report."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out")
            out = mallow("probe", "calls", "--json", "-o", path, "--lib", program, "--function", functions, "--", program)
            with open(path, encoding="utf-8") as f:
                document = json.load(f)
        self.assertEqual(out.returncode, 0, out.stderr)
        return out, document

    def test_nothing_changes(self):
        program = victim("encodings_victim")
        alone = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        names = [line.split()[0] for line in alone.splitlines()]
        never = {f"e_{code}" for code in first_instructions.NEVER}
        self.assertGreater(len(names), 6000)
        out, document = self.probed(program, "e_*")
        self.assertEqual([(a, b) for a, b in zip(alone.splitlines(), out.stdout.splitlines()) if a != b], [])
        self.assertEqual(out.stdout, alone)
        self.assertEqual({f["function"]: f["calls"] for f in document["functions"]}, {n: 2 for n in names if n not in never})
        self.assertEqual({p["function"]: p["reason"] for p in document["not_placed"]},
                         {f: BECOMES_CALL if f in NOPS else NOT_PROVEN for f in never})
        self.assertEqual(out.stderr.count("\n"), 2, out.stderr)
        self.assertIn(f" and {len(never) - len(NOPS) - 4} more cannot be probed: {NOT_PROVEN}", out.stderr)
        self.assertIn(f"cannot be probed: {BECOMES_CALL}", out.stderr)

    def test_nops_that_would_become_calls(self):
        """Asked of the table first: where it allows such a nop, none is tried."""
        out = subprocess.run([victim("encodings_table")], input="0f1f440000\n660f1f4000\n", capture_output=True, text=True, check=True).stdout
        self.assertEqual(out.split(), ["0", "0"])
        program = victim("nops_victim")
        alone = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        self.assertEqual(alone.split(), ["0f", "66", "0f", "66"])
        out, document = self.probed(program, "nop_*")
        self.assertEqual({f["function"]: f["calls"] for f in document["functions"]}, {"nop_four": 1000, "nop_six": 1000})
        self.assertEqual({p["function"]: p["reason"] for p in document["not_placed"]},
                         dict.fromkeys(("nop_five", "nop_five_short"), BECOMES_CALL))
        self.assertEqual(out.stdout.split()[:4], ["0f", "66", "cc", "cc"])
        self.assertNotIn("trampoline", out.stdout)


class Libraries(Case):
    """Copies: the kernel keeps probes by file, and this is none of other programs' business."""

    def copies(self, *command):
        """Copies the program and its libraries; returns the command that runs it with them, which its loader does."""
        listed = subprocess.run(["ldd", command[0]], capture_output=True, text=True, check=True).stdout
        paths = [word for line in listed.splitlines() for word in line.split() if word.startswith("/")]
        for path in (command[0], *paths):
            shutil.copy(path, self.folder)
        [loader] = [os.path.basename(p) for p in paths if os.path.basename(p).startswith("ld-linux")]
        program = os.path.join(self.folder, os.path.basename(command[0]))
        return [os.path.join(self.folder, loader), "--library-path", self.folder, program, *command[1:]]

    def beside(self, file, command, bystanders=3):
        """Runs the command under a probe of all functions of `file`, and others beside it. All print what they print alone, which
        begins when they have read a byte."""
        def start(before=()):
            p = subprocess.Popen([*before, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for end in (p.wait, p.kill, p.stdin.close, p.stdout.close, p.stderr.close):
                self.addCleanup(end)
            return p
        with start() as p:
            alone = p.communicate("g\n", timeout=600)[0]
            self.assertEqual(p.returncode, 0)
        others = [start() for _ in range(bystanders)]
        for p in others:
            reads(p)
        path = os.path.join(self.folder, "out.json")
        probe = start([MALLOW, "probe", "calls", "--json", "-o", path, "--lib", os.path.join(self.folder, file), "--function", "*", "--"])
        attached(probe)
        for p in others:
            p.stdin.write("g\n")
            p.stdin.flush()
        for p in others:
            self.assertEqual((p.communicate(timeout=600)[0], p.returncode), (alone, 0))
        self.assertIsNone(probe.poll())
        out, err = probe.communicate("g\n", timeout=600)
        self.assertEqual((out, probe.returncode), (alone, 0), err)
        with open(path, encoding="utf-8") as f:
            document = json.load(f)
        self.assertGreater(sum(f["calls"] for f in document["functions"]), 50)
        return document

    def notes(self, file):
        return subprocess.run(["readelf", "-n", os.path.join(self.folder, file)], capture_output=True, text=True, check=True).stdout

    def has_debug_symbols(self, file):
        build_id = self.notes(file).split("Build ID: ")[1].split()[0]
        return os.path.exists(f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug")

    def test_the_c_library(self):
        document = self.beside("libc.so.6", self.copies(victim("strings_victim"), "wait"))
        names = {f["function"] for f in document["functions"]}
        if "__libc_start_call_main" not in names:
            print("SKIPPED, LOUDLY: the C library has no debug symbols here (libc6-dbg), exported names alone are tried")
        for p in document["not_placed"]:
            self.assertNotIn(p["function"], ("malloc", "free", "realloc", "calloc"))

    def test_the_mathematical_library(self):
        document = self.beside("libm.so.6", self.copies(victim("strings_victim"), "wait"))
        if not self.has_debug_symbols("libm.so.6"):
            self.skipTest("SKIPPED, LOUDLY: the C library has no debug symbols here (libc6-dbg), which name the versions for AVX")
        if "IBT" in self.notes("libm.so.6"):  # Ubuntu's: each exported function begins with endbr64, and until 26.04 the others
            self.assertEqual([p for p in document["not_placed"] if not p["function"].startswith("as_")], [])
        else:
            self.assertTrue(document["not_placed"])

    def test_of_other_languages(self):
        program = "import sys,hashlib,json; sys.stdin.readline(); print(hashlib.sha256(json.dumps(sys.version).encode()).hexdigest())"
        python = os.path.realpath(shutil.which("python3", path="/usr/bin:/bin") or "")
        if not python:
            self.skipTest("SKIPPED, LOUDLY: no python3 in /usr/bin")
        command = [python, "-I", "-S", "-c", program]
        loaded = subprocess.run([*command[:-1], "import _hashlib; print(_hashlib.__file__)"], capture_output=True, text=True,
                                check=True).stdout.strip()
        command = self.copies(*command)
        self.copies(loaded)
        self.beside(os.path.basename(python), command)
        [crypto] = [name for name in os.listdir(self.folder) if name.startswith("libcrypto.so")] or [None]
        if crypto:
            self.beside(crypto, command)

    def test_of_cplusplus(self):
        self.beside("libstdc++.so.6", self.copies(victim("streams_victim")))


if __name__ == "__main__":
    main()
