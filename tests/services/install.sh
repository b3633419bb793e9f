#!/bin/sh
# Makes sure of Debian packages that the tests start programs of: tests/services/install.sh NAME…
# Installs what is missing when run by root; else it says what to install.
set -eu

missing=""
for package in "$@"; do
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null \
        | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" != 0 ]; then
    echo "These tests need Debian packages. Install them with: sudo apt-get install$missing" >&2
    exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends -y $missing >/dev/null
