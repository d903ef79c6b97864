#!/bin/sh
# ensure.sh SET...: makes sure that the tools of the named sets are there.
#
# As root on Debian or Ubuntu it installs what is missing with apt-get; everywhere else it names
# exactly what is missing, and how to get it, and exits with 1. It changes nothing else.
set -eu

# Each line: command or pkg-config module (pc:NAME), the Debian package that brings it.
wanted() {
    case $1 in
    build)
        echo "cc gcc"
        echo "make make"
        echo "pkg-config pkg-config"
        echo "pc:libudev libudev-dev"
        ;;
    lint)
        echo "shellcheck shellcheck"
        echo "sparse sparse"
        echo "perl perl"
        echo "git git"
        echo "pip:python3 python3-pip"
        ;;
    ptx)
        echo "dpkg-deb dpkg"
        echo "python3 python3"
        ;;
    rig)
        echo "dpkg-deb dpkg"
        echo "cpio cpio"
        echo "gzip gzip"
        echo "xz xz-utils"
        ;;
    *)
        echo "ensure.sh: no set named $1" >&2
        exit 2
        ;;
    esac
}

present() {
    case $1 in
    pc:*) command -v pkg-config >/dev/null 2>&1 && pkg-config --exists "${1#pc:}" ;;
    pip:*) "${1#pip:}" -m pip --version >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

missing() {
    for set_name in "$@"; do
        wanted "$set_name" | while read -r probe package; do
            present "$probe" || echo "$package"
        done
    done | sort -u | tr '\n' ' '
}

if ! command -v cargo >/dev/null 2>&1; then
    echo "ensure.sh: cargo is missing: install Rust 1.95 or newer with rustup" >&2
    exit 1
fi

for set_name in "$@"; do wanted "$set_name" >/dev/null; done
packages=$(missing "$@")
[ -n "$packages" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing: $packages"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # a list of package names
    apt-get install -y -qq --no-install-recommends $packages >/dev/null 2>&1 || {
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends $packages >/dev/null
    }
    packages=$(missing "$@")
    [ -n "$packages" ] || exit 0
fi
echo "ensure.sh: missing (Debian package names): $packages" >&2
command -v apt-get >/dev/null 2>&1 && echo "run: sudo apt-get install $packages" >&2
exit 1
