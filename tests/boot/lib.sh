# Shared by the boot test's scripts. Fetching and its cache are the rig's.
# shellcheck shell=bash disable=SC1091,SC2034

. "$(dirname "${BASH_SOURCE[0]}")/../rig/lib/common.sh"
. "$RIG_SOURCE/lib/apt.sh"

BOOT_SOURCE=$REPO/tests/boot
# Everything that is made for the boot test; git ignores it.
BOOT=$RIG_DIR/boot
# File system ids that the images and their boot loaders agree on.
ROOT_UUID=51075107-0000-4000-8000-000000000001
MACHINE_ID=51075107000040008000000000000001

# host PROGRAM ARGUMENT...: a program of the unpacked host tools.
host() {
	local program=$1 path
	shift
	for path in sbin usr/sbin bin usr/bin; do
		if [ -x "$BOOT/host/$path/$program" ]; then
			"$(loader "$BOOT/host")" --library-path "$(libraries "$BOOT/host")" "$BOOT/host/$path/$program" "$@"
			return
		fi
	done
	die "the host tools have no $program"
}
