#!/bin/bash
# Makes sure that the packages of the named groups (packages.txt) are installed: with apt when we
# are root or sudo asks for no password, otherwise prints the command to run and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

list_packages() { # GROUP...
    awk -v groups=" $* " '!/^#/ && NF && index(groups, " " $2 " ") { print $1 }' packages.txt
}

is_installed() { # PACKAGE
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "focal: not a Debian system, so nothing is installed. Needed, by their Debian names:" \
        $(list_packages "$@") >&2
    exit 0
fi

missing=()
for package in $(list_packages "$@"); do
    is_installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ]; then
    become=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    become=(sudo -n)
else
    echo "focal: packages are missing and only root can install them. Run this, then try again:" >&2
    echo "  sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi

echo "focal: installing ${missing[*]}" >&2
apt=("${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
"${apt[@]}" update >/dev/null
"${apt[@]}" install --yes --no-install-recommends "${missing[@]}" >/dev/null
