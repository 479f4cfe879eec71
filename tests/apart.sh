#!/bin/bash
# Runs a test so that it depends on nothing of where it is started: every test runs in it (see
# tests/meson.build). For root, where a mount namespace can be had, /dev/shm is the test's own: what others
# leave there, remove there, or have no room for, is none of its business.
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
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    # shellcheck disable=SC2016  # the inner shell expands it
    exec unshare -m /bin/sh -c 'mount -t tmpfs -o mode=1777,size=1g none /dev/shm; exec "$@"' sh "$@"
fi
exec "$@"
