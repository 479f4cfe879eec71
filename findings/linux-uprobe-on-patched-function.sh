#!/bin/sh
# Linux 6.18.44, x86-64, a uprobe by tracefs (perf and bpftrace use the same part of the kernel).
#
# A process may write other instructions over a function of its own: a library with a general and a fast form of its entry, a
# tool that intercepts calls. A uprobe that is put on the function afterwards does two things to it that one does not expect.
# While the probe is there, the kernel runs the first instruction as the file has it, not the one that the process wrote and
# that the breakpoint took the place of: the patch is not in force. When the probe goes, the kernel writes the file's first
# byte, not the one that it found: it stands in front of the rest of the patch, as the beginning of another instruction.
# Where the patch has the file's first byte, only the first of the two is seen.
#
# Seen: the file's function gives 1 and its patches 2; each is called with 7 before, while and after the probe is there:
#       operand: 2 1 2
#       opcode:  2 7 7, the first byte bf, cc, b8
#
# Fails when that changes. Needs root, tracefs and a C compiler; installs nothing.
set -eu
[ "$(id -u)" = 0 ] || { echo "needs root" >&2; exit 77; }
dir=$(mktemp -d)
events=$dir/tracing/uprobe_events
finish() {
    [ ! -e "$events" ] || { echo 0 >"$dir/tracing/events/findings/enable"; echo "-:findings/operand"; echo "-:findings/opcode"; } \
        2>/dev/null >>"$events" || :
    umount "$dir/tracing" 2>/dev/null || :
    rm -rf "$dir"
}
trap finish EXIT
mkdir "$dir/tracing"
mount -t tracefs tracefs "$dir/tracing"
cat >"$dir/patched.c" <<'C'
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* mov $1, %eax; nop; nop; ret */
#define FUNCTION(name)                                                                                       \
    int name(int);                                                                                           \
    __asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name                        \
            ":\n.byte 0xb8, 1, 0, 0, 0, 0x90, 0x90, 0xc3\n.size " #name ", 8\n")
FUNCTION(operand);
FUNCTION(opcode);

static void patch(int (*function)(int), const char *bytes)
{
    char *page = (char *)((unsigned long)function & ~4095ul);
    mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy((char *)function, bytes, 8);
    mprotect(page, 8192, PROT_READ | PROT_EXEC);
}

int main(void)
{
    char line[8];
    patch(operand, "\xb8\2\0\0\0\x90\x90\xc3"); /* mov $2, %eax; nop; nop; ret */
    patch(opcode, "\xbf\2\0\0\0\x89\xf8\xc3");  /* mov $2, %edi; mov %edi, %eax; ret */
    do {
        printf("%d %d %02x\n", operand(7), opcode(7), *(unsigned char *)opcode);
        fflush(stdout);
    } while (fgets(line, sizeof line, stdin));
    return 0;
}
C
${CC:-cc} -O1 -o "$dir/patched" "$dir/patched.c"
place() { printf '0x%x' "$((0x$(nm "$dir/patched" | sed -n "s/ T $1\$//p")))"; }
mkfifo "$dir/in"
"$dir/patched" <"$dir/in" >"$dir/out" &
exec 3>"$dir/in"
await() {
    for _ in $(seq 500); do
        [ "$(wc -l <"$dir/out")" = "$1" ] && return
        sleep 0.02
    done
}
await 1
for name in operand opcode; do
    echo "p:findings/$name $dir/patched:$(place $name)" >>"$events"
done
echo 1 >"$dir/tracing/events/findings/enable"
echo >&3
await 2
echo 0 >"$dir/tracing/events/findings/enable"
echo >&3
await 3
exec 3>&-
wait
cat "$dir/out"
[ "$(cat "$dir/out")" = "2 2 bf
1 7 cc
2 7 b8" ] || { echo "uname -r: $(uname -r); the kernel does something else now" >&2; exit 1; }
