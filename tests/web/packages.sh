#!/bin/sh
# packages.sh SCRIPT PACKAGE_JSON LOCK STAMP: runs web/packages.sh. Without a network the rest is built and
# tested all the same: there is no stamp then, so the next build tries again, and the reason is in *.why.
why=$(dirname "$4")/packages.why
if ! sh "$1" "$2" "$3" "$4" 2>"$why"; then
    rm -f "$4"
    cat "$why" >&2
fi
