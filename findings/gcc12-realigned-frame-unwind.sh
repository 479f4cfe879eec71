#!/bin/sh
# gcc 12.2.0 (Debian 12, cpp-12 12.2.0-14+deb12u1), -O2 -mincoming-stack-boundary=3.
#
# A function that aligns its stack for itself, and pushes arguments (a call with more than six), finds its caller by a
# register of its own (r10, "DRAP"). Its unwind table gives the place of the caller's rbp as an expression of rbp: "rbp lies where rbp points". The rule stays in force behind the
# epilogue's pop of rbp, where rbp is the caller's again. -fasynchronous-unwind-tables promises tables that hold at every
# instruction. An unwinder in a signal handler that interrupts there, as of a sampling profiler, reads at whatever the caller
# has in rbp. With -maccumulate-outgoing-args gcc finds the caller by rbp, and places are given by the caller's frame: they
# hold to the end. force_align_arg_pointer makes the same frames.
#
# Seen: a rule of rbp by rbp, a pop of rbp behind it, and no other rule of rbp before the end:
#       .cfi_escape 0x10,0x6,0x2,0x76,0
#       popq    %rbp
#       ret
# With -maccumulate-outgoing-args:
#       popq    %rbp
#       ret
#
# Fails when that changes. Needs Debian 12's packages; installs nothing.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -qq cpp-12=12.2.0-14+deb12u1 libgmp10=2:6.2.1+dfsg1-1.1 libisl23=0.25-1.1 libmpc3=1.3.1-1 libmpfr6=4.2.0-1 >/dev/null 2>&1
for package in *.deb; do
    dpkg-deb -x "$package" root
done
cat >aligns.c <<'C'
int asks(long a, long b, long c, long d, long e, long f, long g);
long chosen(long a, long b)
{
    return asks(a, b, a, b, a, b, a) ? a : b;
}
C
# The rules of rbp by rbp (DW_CFA_expression of register 6: DW_OP_breg6 0), what restores another rule, and the end.
compile() {
    LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu root/usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet -O2 -fasynchronous-unwind-tables \
        -fomit-frame-pointer -mincoming-stack-boundary=3 "$@" aligns.c -o aligns.s
    grep -oE '\.cfi_escape 0x10,0x6,0x2,0x76,0|\.cfi_restore (6|rbp)|\.cfi_same_value 6|popq[[:space:]]+%rbp|[[:space:]]ret$' aligns.s | tr -s '[:space:]' ' '
}
with=$(compile) without=$(compile -maccumulate-outgoing-args)
printf '%s\n\n%s\n' "$with" "$without"
[ "$with" = '.cfi_escape 0x10,0x6,0x2,0x76,0 popq %rbp ret ' ] || { echo "the rule of rbp is another one"; exit 1; }
[ "$without" = 'popq %rbp ret ' ] || { echo "there is a rule of rbp by rbp"; exit 1; }
