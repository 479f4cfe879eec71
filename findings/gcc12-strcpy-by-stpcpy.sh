#!/bin/sh
# gcc 12.2.0 (Debian 12, cpp-12 12.2.0-14+deb12u1), -O2.
#
# A strcpy that is written as a call of stpcpy, whose result is not used, is compiled into a call of strcpy: itself. gcc turns
# `(void)stpcpy(to, from)` into `strcpy(to, from)` without asking in whose body it stands. The manuals warn of loops that become
# memcpy or memset in their own definition, not of this. Who writes libc's functions again, as preloaded libraries do, needs
# -fno-builtin, or bodies that share functions of other names.
#
# Seen, in the function strcpy:
#       call    strcpy@PLT
# With -fno-builtin-stpcpy:
#       call    stpcpy@PLT
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
cat >own.c <<'C'
char *stpcpy(char *to, const char *from);
char *strcpy(char *to, const char *from)
{
    (void)stpcpy(to, from);
    return to;
}
C
compile() {
    LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu root/usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet -O2 -Wno-infinite-recursion "$@" own.c -o own.s
    grep -E '^[[:space:]]+(call|jmp)[[:space:]]' own.s | tr -s '[:space:]' ' ' 
}
with=$(compile) without=$(compile -fno-builtin-stpcpy)
printf '%s\n%s\n' "$with" "$without"
[ "$with" = " call strcpy@PLT " ] || { echo "strcpy does not call itself any more"; exit 1; }
[ "$without" = " call stpcpy@PLT " ] || { echo "stpcpy is not called"; exit 1; }
