#!/bin/bash
# The slow suite of `mallow probe arenas --source static`: builds glibc from Debian's source package with its
# SystemTap probes (half an hour on one busy processor) and runs the eight-thread victim on it.
#
# usage: static_glibc.sh BUILD FOLDER
#
# BUILD: where mallow is built. FOLDER: where glibc is built; what is there already is not done again. Needs a
# network for the packages, which are unpacked in FOLDER and not installed; probing needs root. No part of
# `make check`.
set -eu

if [ $# -ne 2 ]; then
    sed -n 's/^# \(usage: .*\)/\1/p' "$0" >&2
    exit 2
fi
build=$(realpath "$1")
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
mkdir -p "$2"
cd "$2"
folder=$PWD

# Headers of the probes, and what glibc's configure asks for.
if [ ! -d tools ]; then
    apt-get download glibc-source systemtap-sdt-dev bison gawk m4 libsigsegv2
    for package in *.deb; do dpkg-deb -x "$package" tools; done
fi
export PATH=$folder/tools/usr/bin:$PATH LD_LIBRARY_PATH=$folder/tools/usr/lib/x86_64-linux-gnu
export BISON_PKGDATADIR=$folder/tools/usr/share/bison M4=$folder/tools/usr/bin/m4

# Debian's patches are in it already.
if [ ! -e source/configure ]; then
    rm -rf source
    mkdir source
    tar -xf tools/usr/src/glibc/glibc-*.tar.xz -C source --strip-components=1
fi
if [ ! -e objects/config.make ]; then
    mkdir -p objects
    (cd objects && CPPFLAGS="-idirafter $folder/tools/usr/include/x86_64-linux-gnu" ../source/configure --prefix=/usr \
        --enable-systemtap --disable-werror --disable-nscd --without-selinux >configure.log 2>&1) ||
        { tail -n 5 objects/configure.log; exit 1; }
fi
# The library and its loader alone.
if [ ! -e objects/libc.so ]; then
    nice -n 5 make -s -C source objdir="$folder/objects" -j1 lib >make.log 2>&1 || { tail -n 20 make.log; exit 1; }
fi
unset LD_LIBRARY_PATH
mkdir -p run
ln -sf ../objects/libc.so run/libc.so.6
ln -sf ../objects/elf/ld.so run/ld.so
BUILD_ROOT=$build PYTHONPATH=$(realpath "$here/..") PYTHONDONTWRITEBYTECODE=1 \
    STATIC_GLIBC=$folder/run exec python3 "$here/test_arenas.py" Static
