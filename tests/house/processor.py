"""Fails when code outside src/arch holds what only one processor understands: assembly, intrinsics, names of
registers, names of the processor, the size of a page or the width of addresses as a number.
Usage: processor.py SOURCE_ROOT"""
import os
import re
import sys

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
# Not of a processor: the name of a symbol, and the barrier for the compiler alone.
HARMLESS = re.compile(r'(?<=[\w)] )__asm__\("\w+"\);|__asm__ volatile\("" ::: "memory"\)|(?<=\w )__asm__\(#\w+\)')
SPECIAL = {
    "assembly": re.compile(r"\b(?:__asm__|asm)\b"),
    "an intrinsic": re.compile(r"__builtin_ia32_\w+|\b_mm_\w+|<(?:cpuid|\w*mmintrin|x86intrin)\.h>|__get_cpuid|\b__?rdtsc"),
    "a name of the processor": re.compile(r"__x86_64__|__aarch64__|\bAUDIT_ARCH_\w+|\bEM_X86_64\b|x86_64-linux-gnu"),
    "a register": re.compile(r"\buser_regs_struct\b|\bREG_(?:R(?:IP|SP|BP|AX|[A-Z]X|[SD]I|\d+)|ERR)\b"),
}
# Where a number is used as the size of a page, its logarithm, or the width of an address.
NUMBER = re.compile(r"\b(?:4095|0xfff)(?:u|ul|ull)?\b|(?:[%/*]|[-+]=) *4096\w*|, *4096\w* *[,)]|aligned\(4096"
                    r"|\b\w*PAGE(?:_BYTES|_SIZE|_SHIFT)?\s*(?:=|\s)\s*\(?(?:\(\w+\))?\s*(?:4096\w*|12)\b|(?:<<|>>) *(?:12|47)\b")

# What stands outside src/arch and may, with the reason. Kernel types that bpftool made are none of our code.
SKIPPED = {"bpf/vmlinux.h"}
ALLOWED = {
    "remote/live.h": "rsp and fs_base of the threads of a process",
    "remote/target_core.c": "the same, in a core",
    "remote/target_live.c": "the same",
    "remote/borrow.c": "the registers of a thread that is stopped: a second processor needs its own file",
    "remote/thread.h": "the registers of a thread that is stopped",
    "remote/safe.c": "the same",
}
# File -> how many such numbers mean something else, and what.
OTHER_NUMBERS = {
    "bpf/stack.inc": (1, "entries of a map"),
    "format/watch.h": (3, "the file format's own: a budget, and the bits of a frame"),
    "remote/image.c": (1, "steps at most"),
    "import/rows.c": (1, "the longest path"),
    "preload/unwind/unwind_impl.h": (2, "bits of a packed rule"),
    "show/html_pack.c": (1, "base64"),
    "symbol/dwarfindex.c": (2, "limits"),
    "trace/seal/section_write.c": (1, "a bound of what is packed"),
    "trace/sealed/section_read.c": (1, "the same bound"),
    "trust/file.c": (1, "room for a text"),
    "workload/djmalloc_write.c": (1, "made-up addresses"),
}


def plain(text):
    return COMMENT.sub(lambda m: "\n" * m.group().count("\n"), text)


def without_texts(text):
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def found(text):
    """(what, the text of it) of everything that belongs into arch/, and how many of the numbers."""
    code = HARMLESS.sub("", plain(text))
    special = [(what, m.group()) for what, pattern in SPECIAL.items() for m in pattern.finditer(code)]
    return special, len(NUMBER.findall(without_texts(code)))


def check(root, allowed=None, numbers=None):
    """Returns a list of complaints."""
    allowed = ALLOWED if allowed is None else allowed
    numbers = OTHER_NUMBERS if numbers is None else numbers
    bad, seen, src = [], 0, os.path.join(root, "src")
    for directory, _, names in sorted(os.walk(src)):
        for name in sorted(names):
            here = os.path.relpath(os.path.join(directory, name), src)
            if not name.endswith((".c", ".h", ".inc")) or here.startswith("arch" + os.sep) or here in SKIPPED:
                continue
            seen += 1
            with open(os.path.join(directory, name), encoding="utf-8") as f:
                special, n = found(f.read())
            if here not in allowed:
                bad += [f"src/{here}: {what} ({text}) belongs to src/arch" for what, text in special]
            elif not special:
                bad.append(f"src/{here} is on the list of exceptions and needs not to be")
            if n != numbers.get(here, (0, ''))[0]:
                bad.append(f"src/{here}: {n} numbers that may be the size of a page or the width of addresses, "
                           f"{numbers.get(here, (0, ''))[0]} are known to mean something else: see src/arch/page.h")
    bad += [f"src/{here} is listed and not there" for here in sorted({*allowed, *numbers})
            if not os.path.exists(os.path.join(src, here))]
    return bad if seen else ["no sources"]


def check_itself():
    for text in ('__asm__("nop");', "x = __builtin_ia32_rdtsc();", "#include <emmintrin.h>", "REG_RIP",
                 ".arch = AUDIT_ARCH_X86_64", '"/lib/x86_64-linux-gnu"'):
        assert found(text)[0], f"passes: {text}"
    for text in ("at += 4096", "x & ~4095ul", "address >> 12", "1ull << 47"):
        assert found(text)[1], f"passes: {text}"
    for text in ('__asm__ volatile("" ::: "memory");', 'void f(void) __asm__("sigaction");', "int shown __asm__(#name)", "/* __asm__ 4096 */", '"4096"'):
        assert found(text) == ([], 0), f"does not pass: {text}"


if __name__ == "__main__":
    check_itself()
    problems = check(sys.argv[1])
    print("\n".join(problems + [f"processor: {len(problems)} complaints"]))
    sys.exit(1 if problems else 0)
