"""Writes the assembly of encodings_victim: a function for each encoding of a first instruction that a probe may
stand on (src/arch/x86_64/uprobe.h). A function's name is e_ and the bytes of that instruction.
Usage: first_instructions.py OUT"""
import sys

IMM8 = {0x6a, 0x6b, 0x80, 0x83, 0xa8, 0xc0, 0xc1, 0xc6, *range(0xb0, 0xb8), *range(0x04, 0x40, 8)}
IMM_WORD = {0x68, 0x69, 0x81, 0xa9, 0xc7, *range(0x05, 0x40, 8)}
MODRM = {*(r + i for r in range(0, 0x40, 8) for i in range(4)), 0x63, 0x69, 0x6b, *range(0x80, 0x8c), 0x8d, 0x8f, 0xc0, 0xc1, 0xc6,
         0xc7, *range(0xd0, 0xd4), 0xd9, 0xdb, 0xdd, 0xf6, 0xf7, 0xfe, 0xff}
TWO_IMM8 = {0x70, 0x71, 0x72, 0x73, 0xa4, 0xac, 0xba, 0xc2, 0xc4, 0xc5, 0xc6}
REGISTER, MEMORY, RELATIVE, STACK = "register", "memory", "relative", "stack"


def operands(reg, forms):
    """ModRM and what follows, as (bytes, relative)."""
    for form in forms:
        if form == REGISTER:
            yield bytes([0xc0 | reg << 3 | 2]), False
        elif form == MEMORY:  # rdi, or r15
            yield bytes([reg << 3 | 7]), False
        elif form == STACK:
            yield bytes([0x44 | reg << 3, 0x24, 8]), False
        else:
            yield bytes([reg << 3 | 5]), True


def one(opcode, regs=(1,), forms=(REGISTER, MEMORY, RELATIVE, STACK), prefixes=(b"", b"\x66"), rexes=(b"", b"\x48", b"\x4d"), thread=False):
    for prefix in prefixes:
        for rex in rexes:
            front = (b"\x64" if thread else b"") + prefix + rex + bytes([opcode])
            wide = rex and rex[0] & 8
            word = b"\x34\x12" if prefix == b"\x66" and not wide else b"\x34\x12\x56\x08"
            for reg in regs:
                immediate = b"\x15" if opcode in IMM8 or (opcode == 0xf6 and reg == 0) else b""
                if opcode in IMM_WORD or (opcode == 0xf7 and reg == 0):
                    immediate = word
                if opcode in range(0xb8, 0xc0):
                    immediate = word + (b"\x11\x22\x33\x44" if wide else b"")
                if opcode in MODRM:
                    for tail, relative in operands(reg, forms):
                        yield front, tail, relative, immediate
                else:
                    yield front, b"", False, immediate


def two(opcode, prefixes, regs=(1,), forms=(REGISTER, MEMORY, RELATIVE), rexes=(b"", b"\x48", b"\x4d")):
    immediate = b"\x15" if opcode in TWO_IMM8 else b""
    for prefix in prefixes:
        for rex in rexes:
            for reg in regs:
                for tail, relative in operands(reg, forms):
                    yield prefix + rex + bytes([0x0f, opcode]), tail, relative, immediate


def straight():
    """Instructions behind which the next one follows."""
    for row in range(0, 0x40, 8):
        for i in range(6):
            yield from one(row + i)
    for i in range(16):
        yield from one(0x50 + i, prefixes=[b""], rexes=[b"", b"\x41"])
    yield from one(0x63)
    for opcode in (0x68, 0x6a):
        yield from one(opcode, prefixes=[b""], rexes=[b""])
    for opcode in (0x69, 0x6b):
        yield from one(opcode)
    for opcode in (0x80, 0x81, 0x83):
        yield from one(opcode, regs=range(8))
    for opcode in (*range(0x84, 0x8c), *range(0x91, 0x9a), 0xa8, 0xa9, *range(0xb0, 0xc0), 0xfc):
        yield from one(opcode)
    yield from one(0x8d, forms=(MEMORY, RELATIVE, STACK))
    yield from one(0x8f, regs=[0], prefixes=[b""])
    yield from one(0x90, rexes=[b""])
    for opcode in (0xc0, 0xc1, 0xd0, 0xd1, 0xd2, 0xd3):
        yield from one(opcode, regs=(0, 1, 2, 3, 4, 5, 7))
    for opcode in (0xc6, 0xc7):
        yield from one(opcode, regs=[0])
    yield from one(0xc9, prefixes=[b""], rexes=[b""])
    memory = (MEMORY, RELATIVE, STACK)
    for opcode, regs, forms in ((0xd9, (0, 7), memory), (0xd9, (0, 5), (REGISTER,)), (0xdb, [5], memory), (0xdd, [0], memory)):
        yield from one(opcode, regs, forms, [b""], [b""])
    for opcode in (0xf6, 0xf7):
        yield from one(opcode, regs=(0, 2, 3, 4, 5, 6, 7))
    for opcode in (0xfe, 0xff):
        yield from one(opcode, regs=(0, 1))
    yield from one(0xff, regs=[6], prefixes=[b""])
    for opcode in (0x8b, 0x89, 0x80, 0x83):  # %fs:(%rdx), which is 0 there, and what lies at the thread's own place
        for rex in (b"", b"\x48"):
            yield b"\x64" + rex + bytes([opcode]), bytes([0x0c, 0x25, *OF_THREAD]), False, b"\x15" if opcode < 0x89 else b""
            for reg in range(8) if opcode in (0x80, 0x83) else ():
                yield b"\x64" + rex + bytes([opcode]), bytes([reg << 3 | 4, 0x25, *OF_THREAD]), False, b"\x15"
    for prefix in (b"", b"\x66"):
        yield from two(0x1f, [prefix], regs=[0], rexes=[b""])
        for opcode in (*range(0x40, 0x50), *range(0x90, 0xa0), 0xa3, 0xa4, 0xa5, 0xab, 0xac, 0xad, 0xaf, 0xb0, 0xb1, 0xb3, 0xb6, 0xb7,
                       0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0, 0xc1):
            yield from two(opcode, [prefix])
        yield from two(0xba, [prefix], regs=(4, 5, 6, 7))
        for opcode in range(0xc8, 0xd0):
            for rex in (b"", b"\x48", b"\x49"):
                yield prefix + rex + bytes([0x0f, opcode]), b"", False, b""
    for opcode in (0xb8, 0xbc, 0xbd):
        yield from two(opcode, [b"\xf3"])
    yield b"\xf3\x0f\x1e\xfa", b"", False, b""
    for opcode in (*range(0x10, 0x18), *range(0x28, 0x30), *range(0x50, 0x60), 0xc2, 0xc6):
        yield from two(opcode, (b"", b"\x66"))
    for opcode in (*range(0x60, 0x71), 0x74, 0x75, 0x76, 0x7e, 0x7f, 0xc4, 0xc5, *range(0xd1, 0xf0), *range(0xf1, 0xf7),
                   *range(0xf8, 0xff)):
        yield from two(opcode, [b"\x66"])
    for opcode in (0x71, 0x72, 0x73):
        yield from two(opcode, [b"\x66"], range(8), (REGISTER,))
    both = (0x10, 0x11, 0x12, 0x2a, 0x2c, 0x2d, 0x51, 0x58, 0x59, 0x5a, 0x5c, 0x5d, 0x5e, 0x5f, 0x70, 0xc2, 0xe6)
    for prefix, opcodes in ((b"\xf2", both), (b"\xf3", (*both, 0x16, 0x52, 0x53, 0x5b, 0x6f, 0x7e, 0x7f))):
        for opcode in opcodes:
            yield from two(opcode, [prefix])


OF_THREAD = (0xc0, 0xff, 0xff, 0xff)  # as a displacement, %fs:-64: the victim keeps room there


def hexadecimal(data):
    return ",".join(f"0x{b:02x}" for b in data)


def put(out, name, lines):
    out.write(f'.globl e_{name}\n.type e_{name}, @function\ne_{name}:\n{lines}\n.size e_{name}, . - e_{name}\n')


def jumps(out, names):
    """Instructions that go elsewhere, or may."""
    def add(code, lines):
        names.append(code.replace(" ", ""))
        put(out, names[-1], lines)
    leave, other = "jmp case_ends", "movb $3, how(%rip); jmp case_ends"
    for cc in range(16):
        add(f"{0x70 + cc:02x}05", f".byte 0x{0x70 + cc:02x}, 5; .byte 0xe9; .long case_ends - . - 4; {other}")
        add(f"0f{0x80 + cc:02x}05000000", f".byte 0x0f, 0x{0x80 + cc:02x}, 5, 0, 0, 0; .byte 0xe9; .long case_ends - . - 4; {other}")
    add("eb05", f".byte 0xeb, 5; .byte 0xe9; .long case_ends - . - 4; {other}")
    add("e905000000", f".byte 0xe9, 5, 0, 0, 0; .byte 0xe9; .long case_ends - . - 4; {other}")
    add("e805000000", f".byte 0xe8, 5, 0, 0, 0; .byte 0xe9; .long case_ends - . - 4; {other}")
    for reg in (2, 4):  # call, jmp; rax, r8, and the words at rdi, r15, and behind rip lead to case_goes
        for rex in ("", "48", "49"):
            byte = f".byte 0x{rex}; " if rex else ""
            add(f"{rex}ff{0xc0 | reg << 3:02x}", f"{byte}.byte 0xff, 0x{0xc0 | reg << 3:02x}; {leave}")
            add(f"{rex}ff{reg << 3 | 5:02x}", f"{byte}.byte 0xff, 0x{reg << 3 | 5:02x}; .long there - . - 4; {leave}")
            add(f"{rex}ff{0x44 | reg << 3:02x}2418", f"{byte}.byte 0xff, 0x{0x44 | reg << 3:02x}, 0x24, 0x18; {leave}")
    add("c3", ".byte 0xc3")
    add("f2c3", ".byte 0xf2, 0xc3")
    add("f3c3", ".byte 0xf3, 0xc3")


# What the kernel refuses or handles wrongly: these must have no probe.
NEVER = ("c5f97ec1", "c5fc54c2", "c5ed57c1", "c5fd6fc2", "c5f96ec1", "c5f977", "c4e1f97ec0", "62f17c4828c2", "6272fd287cc7",
         "4990", "4890", "9c", "f3a4", "f3aa", "660f3804c1", "f0ff07", "2e8b07", "673e8b07", "658b07", "d5188bc1", "c7f800000000",
         "0f1f440000", "660f1f4000", "66480f1f07", "f20f2b07", "f30f2b0d00000000")


def write(out):
    names, bad, seen = [], [], set()
    out.write(".text\n")
    for front, tail, relative, immediate in straight():
        name = (front + tail).hex() + ("r" if relative else "") + immediate.hex()
        if name in seen:
            continue
        seen.add(name)
        names.append(name)
        lines = f".byte {hexadecimal(front + tail)}"
        if relative:
            lines += f"; .long beside - . - {4 + len(immediate)}"
        if immediate:
            lines += f"; .byte {hexadecimal(immediate)}"
        put(out, name, f"{lines}; jmp case_ends")
    jumps(out, names)
    for code in NEVER:
        bad.append(code)
        put(out, code, f".byte {hexadecimal(bytes.fromhex(code))}; jmp case_ends")
    out.write('.section .rodata\n')
    for table, listed in (("cases", names), ("never", bad)):
        out.write(f'.globl {table}\n.balign 8\n{table}:\n')
        for i, name in enumerate(listed):
            out.write(f'.quad e_{name}, {table}_{i}\n')
        out.write('.quad 0, 0\n')
        for i, name in enumerate(listed):
            out.write(f'{table}_{i}: .asciz "e_{name}"\n')
    out.write('.section .note.GNU-stack, "", @progbits\n')


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="ascii") as f:
        write(f)
