"""Reads the instructions of the preloaded libraries, and fails when a function counts on what a caller need not give,
or does what a caller need not expect (docs/design/recorder.md, "The caller's processor").
Usage: machine.py BUILD_ROOT

- A function that stores to the stack by instructions which want it aligned, or calls a function of libc that may, aligns
  it for itself.
- No unwind table says that rbp lies where rbp points: gcc leaves such a rule in force behind the pop of rbp, and a
  profiler that unwinds there reads at whatever the caller has in it.
- No instruction computes with floating point, or touches the x87: each could raise an exception that the program has
  unmasked, and leaves flags behind."""
import os
import re
import subprocess
import sys

LIBRARIES = ["record", "watch", "arenas", "attach", "attach-record"]
# Written in assembly, or without memory of their own on the stack.
ANY_STACK = set("memcpy memset memmove memcmp strlen strcmp strncmp strcpy strncpy stpcpy strnlen strrchr "
                "__errno_location __cxa_finalize _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable "
                "__gmon_start__".split())
ALIGNED_STORE = re.compile(r"v?(?:movap[sd]|movdqa|movntdq|movntp[sd])$")
READS_ALIGNED = re.compile(r"(?:p[a-z]+|(?:and|andn|or|xor|shuf|unpck[lh])p[sd])$")  # legacy forms: 16 bytes
ON_STACK = re.compile(r"\(%r[sb]p[,)]")
ALIGNS = re.compile(r"\$0xffffffffffffff[8cef]0,%rsp")
VECTOR = re.compile(r"%(?:[xyz]?mm\d+|st\b)")
# Moves, integers and bits: they raise no exception of floating point.
HARMLESS = re.compile(r"v?(?:mov[a-z0-9]+|p[a-z]+|(?:and|andn|or|xor|shuf|unpck[lh])p[sd]|zeroupper|zeroall)$")
X87 = re.compile(r"f[a-z0-9]+$")


def imported(library):
    """Where the library's pointers to functions of others lie: address to name."""
    out = subprocess.run(["readelf", "-rW", library], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^([0-9a-f]+) +\S+ +R_X86_64_(?:GLOB_DAT|JUMP_SLOT) +\S+ +([^\s@]+)", out, re.M)
    return {int(at, 16): name for at, name in found}


def functions(library):
    """Name to list of (mnemonic, operands)."""
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], check=True, capture_output=True,
                         text=True).stdout
    found, here = {}, []
    for line in out.splitlines():
        head = re.match(r"[0-9a-f]+ <(.*)>:$", line)
        if head:
            here = found.setdefault(head[1], [])
            continue
        parts = re.match(r"\s*[0-9a-f]+:\t(?:(?:rep|repz|repnz|lock|notrack|bnd|data16|cs|ds) )*(\S+)\s*(.*)", line)
        if parts:
            here.append((parts[1], parts[2]))
    return found


def judge(name, code, pointers):
    """The complaints about one function."""
    if not any(op == "and" and ALIGNS.match(operands) for op, operands in code):
        for op, operands in code:
            at = re.search(r"# ([0-9a-f]+) ", operands)
            callee = pointers.get(int(at[1], 16)) if at else None
            if op in ("call", "jmp") and callee and callee not in ANY_STACK:
                yield f"{name} calls {callee} with the caller's stack: mark it ARCH_ALIGNS_STACK"
            if ON_STACK.search(operands) and (ALIGNED_STORE.match(op) or READS_ALIGNED.match(op) and "%xmm" in operands):
                yield f"{name} needs an aligned stack ({op} {operands}): mark it ARCH_ALIGNS_STACK"
    for op, operands in code:
        if X87.match(op) or (VECTOR.search(operands) and not HARMLESS.match(op)):
            yield f"{name} computes with floating point: {op} {operands}"


# They have an environment of any size on the stack, for which gcc knows no other way. They come back where no program was
# executed, and from posix_spawn.
BY_RBP = {"entry_execve", "entry_execvpe", "entry_fexecve", "entry_execveat", "guest_exec_syscall", "entry_execl", "entry_execlp",
          "entry_execle", "entry_posix_spawn", "entry_posix_spawnp"}


def found_by_rbp(frames, names):
    """The functions whose unwind rules say so. frames: of readelf; names: where functions begin."""
    at = None
    for line in frames.splitlines():
        begins = re.search(r" FDE .* pc=([0-9a-f]+)\.\.", line)
        at = int(begins.group(1), 16) if begins else at
        if re.search(r"DW_CFA_expression: r6 \(rbp\)", line):
            yield names.get(at, {f"{at:#x}"})


def check_frames(library):
    frames = subprocess.run(["readelf", "--debug-dump=frames", library], check=True, capture_output=True, text=True).stdout
    symbols = subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout
    names = {}
    for at, name in re.findall(r"^([0-9a-f]+) [tT] (\S+)$", symbols, re.M):
        names.setdefault(int(at, 16), set()).add(name)
    if frames.count(" FDE ") < 50:
        return [f"{library}: its unwind tables cannot be read"]
    return [f"{os.path.basename(library)}: the unwind table of {min(n)} says that rbp lies where rbp points"
            for n in found_by_rbp(frames, names) if not n & BY_RBP]


def check(library):
    pointers, seen = imported(library), functions(library)
    bad = [f"{os.path.basename(library)}: {line}" for name, code in seen.items() for line in judge(name, code, pointers)]
    if len(seen) < 50:
        bad.append(f"{library}: {len(seen)} functions: it cannot be read")
    return sorted(set(bad + check_frames(library)))


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    bad = [line for name in LIBRARIES for line in check(os.path.join(sys.argv[1], "lib", f"libmallow-{name}.so"))]
    for line in bad:
        print(line)
    print(f"machine: {len(bad)} wrong")
    return 1 if bad else 0


def self_test():
    aligned = [("and", "$0xfffffffffffffff0,%rsp")]
    dlsym = {0x4000: "dlsym", 0x4008: "memcpy"}
    for code, complaints in [([("movaps", "%xmm0,0x10(%rsp)")], 1), ([("pxor", "(%rsp),%xmm1")], 1),
                             ([("movups", "%xmm0,0x10(%rsp)"), ("movaps", "%xmm0,(%rdi)")], 0),
                             ([("call", "*0x2e1(%rip)        # 4000 <dlsym@GLIBC_2.34>")], 1),
                             ([("jmp", "*0x2e1(%rip)        # 4008 <memcpy@GLIBC_2.14>")], 0),
                             ([("cvtsi2sd", "%rax,%xmm0")], 1), ([("addsd", "%xmm1,%xmm0")], 1), ([("fldt", "(%rdi)")], 1),
                             ([("paddd", "%xmm1,%xmm0"), ("movmskps", "%xmm0,%eax")], 0)]:
        found = list(judge("f", code, dlsym))
        if len(found) != complaints or ("stack" in "".join(found) and list(judge("f", aligned + code, dlsym))):
            print(code, found)
            return 1
    frames = """00000018 0000003c 0000001c FDE cie=00000000 pc=000000000000a410..000000000000a562
  DW_CFA_expression: r%d (%s) (DW_OP_breg6 (rbp): 0)"""
    return (list(found_by_rbp(frames % (6, "rbp"), {0xa410: {"f"}})) != [{"f"}] or
            list(found_by_rbp(frames % (12, "r12"), {0xa410: {"f"}})) != [])


if __name__ == "__main__":
    sys.exit(main())
