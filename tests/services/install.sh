#!/bin/sh
# Installs Debian packages that the tests start programs of: tests/services/install.sh NAME…
# Without root or apt it says which are missing; their tests are then left out.
set -eu

missing=""
for package in "$@"; do
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null \
        | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

give_up() {
    echo "Tests that need these Debian packages are left out:$missing" >&2
    exit 0
}

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    give_up
fi

# The tests run daemons of their own: the packages are not to start any.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
echo "Installing$missing …" >&2
export DEBIAN_FRONTEND=noninteractive
# A mirror that fails once, or another apt at work, leaves no test out.
patient="-o Acquire::Retries=5 -o DPkg::Lock::Timeout=300"
# shellcheck disable=SC2086
apt-get $patient update -qq || give_up
# shellcheck disable=SC2086
apt-get $patient install -qq --no-install-recommends -y $missing >/dev/null || give_up
