#!/bin/sh
# glibc 2.43 (Ubuntu 26.04, libc6 2.43-2ubuntu2.7), beside the libc of the machine (glibc 2.36, Debian 12).
#
# Since 2.43 a thread's cache of freed chunks is allocated at the thread's first free, where it was allocated at its first malloc
# before. The cache is a chunk of the heap. A program that builds what it needs, and frees nothing before it frees all of it, has the
# cache above all its blocks: the top of the heap is never larger than what was left behind the cache, and the break does not go
# down again. malloc_trim(0) returns the pages; a free before the blocks lets the break go down by itself, as in every glibc before.
#
# Seen:
#     glibc 2.36: the break grew by 29 MB; all freed: 0 MB
#     glibc 2.43: the break grew by 29 MB; all freed: 29 MB
#     glibc 2.43: the break grew by 29 MB; all freed: 0 MB (one free came first)
#
# Fails when that changes. Needs mmdebstrap, gcc and the keys of Ubuntu's archive (or KEYRING=FILE); installs nothing.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mmdebstrap --quiet --variant=extract --include=libc6=2.43-2ubuntu2.7 --components=main \
    --keyring="${KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}" resolute root >log 2>&1 || { cat log; exit 1; }
cat >grows.c <<'C'
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    static void *p[150000];
    char line[200], *begin = sbrk(0);
    (void)argv;
    if (argc > 1)
        free(malloc(200));
    for (int i = 0; i < 150000; i++)
        p[i] = malloc(200);
    char *full = sbrk(0);
    for (int i = 0; i < 150000; i++)
        free(p[i]);
    char *after = sbrk(0);
    int n = snprintf(line, sizeof line, "glibc %s: the break grew by %ld MB; all freed: %ld MB%s\n", gnu_get_libc_version(),
                     (long)(full - begin) >> 20, (long)(after - begin) >> 20, argc > 1 ? " (one free came first)" : "");
    return write(1, line, (size_t)n) != n;
}
C
gcc -O1 -fno-builtin grows.c -o grows
newer() {
    root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 --library-path root/usr/lib/x86_64-linux-gnu ./grows "$@"
}
seen=$(./grows; newer; newer first)
printf '%s\n' "$seen"
printf '%s\n' "$seen" | sed 1d >newer.txt
cat >expected.txt <<'T'
glibc 2.43: the break grew by 29 MB; all freed: 29 MB
glibc 2.43: the break grew by 29 MB; all freed: 0 MB (one free came first)
T
diff expected.txt newer.txt
