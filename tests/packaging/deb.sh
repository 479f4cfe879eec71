#!/bin/bash
# Installs a package in a minimal Debian of its own, uses it, and removes it: nothing may be left.
# Usage, as root: deb.sh mallow_VERSION_amd64.deb [ROOT]   (ROOT: a minimal system that is there already)
# Not part of `make check`: it fetches a Debian. `make check-long` runs it.
set -eu
deb=$(realpath "$1")
work=$(mktemp -d)
trap 'umount "$root/proc" 2>/dev/null; rm -rf "$work"' EXIT
root=${2-}
if [ -z "$root" ]; then
    command -v mmdebstrap >/dev/null || { echo "deb: mmdebstrap is missing" >&2; exit 77; }
    root=$work/root
    # The sources of this machine, so that a mirror that is configured here is used there.
    mapfile -t sources < <(ls /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1)
    mmdebstrap --quiet --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" "${sources[@]}"
fi
mount -t proc proc "$root/proc"
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
files() { (cd "$root" && find usr etc opt srv -xdev \( -type f -o -type l \) | grep -v '^usr/share/info/dir' | LC_ALL=C sort); }

cp "$deb" "$root/root/mallow.deb"
inside apt-get -q update >"$work/log" 2>&1
# What it depends on stays; only the package itself is judged.
inside sh -c 'apt-get -q install -y --no-install-recommends $(dpkg-deb -f /root/mallow.deb Depends |
    sed "s/([^)]*)//g; s/,//g")' >>"$work/log" 2>&1 || { tail -n 20 "$work/log"; exit 1; }
files >"$work/before"
inside apt-get -q install -y --no-install-recommends /root/mallow.deb >>"$work/log" 2>&1 || { tail -n 20 "$work/log"; exit 1; }
echo "deb: installed $(inside mallow --version)"
inside sh -c 'cd /root && mallow record -q -o ls.mlw -- ls -l / >/dev/null && mallow report --json ls.mlw' >"$work/report.json"
python3 - "$work/report.json" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
assert report["events"] > 100 and report["lost_events"] == 0, report["events"]
print("deb: recorded", report["events"], "calls of ls")
PYTHON
inside sh -c 'cd /root && mallow report --html page.html ls.mlw && test -s page.html && rm ls.mlw page.html'
inside mallow doctor >/dev/null || [ $? -eq 1 ]
inside apt-get -q purge -y mallow >>"$work/log" 2>&1
files >"$work/after"
diff "$work/before" "$work/after"
echo "deb: removed, nothing left"
