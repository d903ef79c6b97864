#!/usr/bin/env bash
# image.sh bios|uefi: makes the machine's disk from its tree and the slot-cmdline that was built,
# without loop devices and without mounting anything.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"

SIZE=${SLOT_BOOT_SIZE:-1100}

# root_file_system TREE OUT
root_file_system() {
	truncate -s "${SIZE}M" "$2"
	# Features that the GRUB of this Debian does not read are left out.
	host mkfs.ext4 -q -F -L root -U "$ROOT_UUID" -O '^metadata_csum_seed,^orphan_file' -d "$1" "$2" 2>/dev/null ||
		host mkfs.ext4 -q -F -L root -U "$ROOT_UUID" -d "$1" "$2"
}

# put PART DISK MIB: copies a part to its place.
put() { dd if="$1" of="$2" bs=1M seek="$3" conv=notrunc,sparse status=none; }

bios() {
	local tree=$1 disk=$2
	root_file_system "$tree" "$disk.root"
	truncate -s "$((SIZE + 2))M" "$disk"
	printf 'label: dos\nstart=2048, type=83, bootable\n' | host sfdisk -q "$disk"
	put "$disk.root" "$disk" 1
	# GRUB: its first sector before the partition table, its core in the gap behind it.
	dd if="$tree/usr/lib/grub/i386-pc/boot.img" of="$disk" bs=440 count=1 conv=notrunc status=none
	dd if="$BOOT/core.img" of="$disk" bs=512 seek=1 conv=notrunc status=none
}

uefi() {
	local tree=$1 disk=$2 esp=160
	truncate -s "${esp}M" "$disk.esp"
	host mkfs.vfat -F 32 -n ESP "$disk.esp" >/dev/null
	MTOOLS_SKIP_CHECK=1 host mcopy -s -i "$disk.esp" "$tree.esp"/* ::
	root_file_system "$tree" "$disk.root"
	truncate -s "$((esp + SIZE + 3))M" "$disk"
	printf 'label: gpt\nstart=2048, size=%d, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B\nstart=%d, size=%d, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709\n' \
		$((esp * 2048)) $((2048 + esp * 2048)) $((SIZE * 2048)) | host sfdisk -q "$disk"
	put "$disk.esp" "$disk" 1
	put "$disk.root" "$disk" $((esp + 1))
}

main() {
	local machine=$1 tree=$BOOT/$1 disk=$BOOT/$1.img
	[ -d "$tree" ] || die "$tree is missing: run tests/boot/tree.sh $machine"
	install -D -m 755 "${SLOT_CMDLINE:-$REPO/target/release/slot-cmdline}" "$tree/usr/local/sbin/slot-cmdline"
	rm -f "$tree/sbin/init"
	install -m 755 "$BOOT_SOURCE/guest/init" "$tree/sbin/init"
	install -D -m 755 "$BOOT_SOURCE/guest/scenario" "$tree/usr/lib/boot-test/scenario"
	chroot "$tree" slot-cmdline --version >/dev/null ||
		die "slot-cmdline does not run in the machine's Debian: build it on Debian 12 or older, or set SLOT_CMDLINE"
	rm -f "$disk" "$disk.esp" "$disk.root"
	"$machine" "$tree" "$disk"
	rm -f "$disk.esp" "$disk.root"
}
main "$@"
