#!/bin/bash
# Runs a test so that it depends on nothing of where it is started: every test runs in it (see
# tests/meson.build). For root, where a mount namespace can be had, /dev/shm is the test's own: what others
# leave there, remove there, or have no room for, is none of its business.
# With OWN_LIBC=1, libc is a copy, too: the kernel keeps uprobes by file, and those of other tools on the
# machine's libc, or of another test, may exclude ours. The programs of the test have it mapped.
# Usage: apart.sh PROGRAM [ARGUMENT...]
umask 022
unset CDPATH CLICOLOR CLICOLOR_FORCE COLUMNS DEBUGINFOD_URLS FORCE_COLOR LANG LANGUAGE LD_PRELOAD LINES \
    GLIBC_TUNABLES MALLOC_ARENA_MAX MALLOC_CONF MALLOW_OUTPUT MALLOW_WATCH_SESSION NO_COLOR POSIXLY_CORRECT XDG_DATA_HOME
[ -w /tmp ] && unset TMPDIR
[ -d "${HOME-}" ] || HOME=/tmp
export HOME LC_ALL=C TERM=dumb TZ=UTC
ulimit -S -c 0
ulimit -S -s 8192 2>/dev/null
[ "$(ulimit -S -n)" -le 4096 ] 2>/dev/null || ulimit -S -n 4096 2>/dev/null
# The outermost directory on the way to the source that other users may not enter (a clone below /root).
closed=
at=$(cd "$(dirname "$0")/.." && pwd -P)
source=$at
while [ "$at" != / ]; do
    [ $((0$(stat -c %a "$at") & 1)) = 1 ] || closed=$at
    at=$(dirname "$at")
done
# Signals are as a terminal has them: nohup, and a shell's `&`, have some ignored, and what is started then
# ignores them as well.
set -- env --default-signal=HUP,INT,QUIT,TERM "$@"
# Nothing that is mounted here may come to be elsewhere. In a chroot whose / is no mount point that is said of /dev alone.
if [ "$(id -u)" = 0 ] && unshare -m --propagation unchanged true 2>/dev/null; then
    # Tests run programs of the build as other users. The source then stands alone in a directory that all may
    # enter, in the place of the closed one; where the source itself is closed, it stays so.
    # shellcheck disable=SC2016  # the inner shell expands it
    exec unshare -m --propagation unchanged /bin/sh -c '
        closed=$1 source=$2
        shift 2
        if mount --make-rprivate / 2>/dev/null; then
            libc=${OWN_LIBC:+$(sed -n "s,.* \(/.*/libc\.so\.6\)$,\1,p" /proc/self/maps | head -n 1)}
            if [ -n "$libc" ] && mount -t tmpfs -o mode=755,size=64m none /dev/shm; then
                cp -p "$libc" /dev/shm/libc.so.6 && mount --bind /dev/shm/libc.so.6 "$libc"
                umount -l /dev/shm
            fi
            mount -t tmpfs -o mode=1777,size=1g none /dev/shm
        else
            closed=
            mount --make-rprivate /dev 2>/dev/null && mount -t tmpfs -o mode=1777,size=1g none /dev/shm
        fi
        if [ -n "$closed" ] && [ "$closed" != "$source" ]; then
            here=$PWD
            mkdir /dev/shm/source && mount --rbind "$source" /dev/shm/source &&
                mount -t tmpfs -o mode=755,size=1g none "$closed" && mkdir -p "$source" &&
                mount --move /dev/shm/source "$source" && rmdir /dev/shm/source
            cd "$here" 2>/dev/null || cd "$source" || exit
        fi
        exec "$@"' sh "$closed" "$source" "$@"
fi
exec "$@"
