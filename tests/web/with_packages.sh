#!/bin/sh
# with_packages.sh BUILD COMMAND...: a test that needs the packages of the page, which web/packages.sh puts
# into BUILD. Skipped with the reason where npm could not fetch them.
directory=$1
shift
if [ ! -e "$directory/packages.stamp" ]; then
    echo "web: skipped, npm could not fetch the packages of the page: $(cat "$directory/packages.why")" >&2
    exit 77
fi
exec "$@"
