#!/usr/bin/env bash
# tree.sh [bios|uefi]...: makes the file trees of the two machines from Debian packages: GRUB with
# initramfs-tools, and systemd-boot with dracut. Both have the rival driver in their initramfs.
# shellcheck disable=SC1091
. "$(dirname "$0")/lib.sh"

COMMON=mount,linux-image-amd64,zstd,udev,kmod,e2fsprogs

# A small image, with the rival in it.
DRACUT='hostonly=no
compress=gzip
dracutmodules=" base kernel-modules rootfs-block udev-rules fs-lib "
drivers=" virtio_pci virtio_blk ext4 "
add_drivers+=" nvidia "'

tools() {
	apt_set bookworm main bookworm bookworm-security
	unpack "$1" install fdisk mtools dosfstools e2fsprogs ovmf
	# mmdebstrap is a script of its own that works with this machine's apt and dpkg.
	unpack "$1/mmdebstrap" download mmdebstrap
}

# debian DIRECTORY PACKAGES FILE TEXT: a minimal Debian with these packages. The file is there before
# they are configured: an initramfs of everything would take minutes.
debian() {
	local into=$1 packages=$2 option
	install -D -m 644 /dev/stdin "$into.first/$3" <<<"$4"
	local -a options=(--mode=root --variant=essential --architectures=amd64 --include="$packages")
	apt_set bookworm main bookworm bookworm-security
	for option in man doc locale info; do options+=(--dpkgopt="path-exclude=/usr/share/$option/*"); done
	for option in 'Acquire::Languages "none"' 'APT::Install-Recommends "false"'; do
		options+=(--aptopt="$option")
	done
	# Packages are downloaded once for good.
	mkdir -p "$RIG_CACHE/boot"
	options+=(--setup-hook="mkdir -p \"\$1/var/cache/apt/archives\"; cp -n '$RIG_CACHE/boot/'*.deb \"\$1/var/cache/apt/archives/\" 2>/dev/null || true")
	options+=(--essential-hook="cp -r '$into.first/.' \"\$1\"")
	options+=(--customize-hook="cp -n \"\$1/var/cache/apt/archives/\"*.deb '$RIG_CACHE/boot/'")
	# mmdebstrap looks for its own filter there.
	PATH=$BOOT/host/mmdebstrap/usr/bin:/usr/sbin:/sbin:$PATH perl "$BOOT/host/mmdebstrap/usr/bin/mmdebstrap" "${options[@]}" --skip=download/empty --skip=essential/unlink --skip=cleanup/apt/cache \
		bookworm "$into" "$RIG_DIR/apt/bookworm/sources.list" >"$into.log" 2>&1 ||
		{ tail -n 20 "$into.log" >&2; die "mmdebstrap failed: see $into.log"; }
	rm -rf "$into"/var/lib/apt/lists/* "$into"/var/cache/apt/archives/*.deb
}

# common DIRECTORY: what both machines have of ours.
common() {
	local tree=$1 release
	release=$(ls "$tree/lib/modules")
	[ "$release" = "$(cat "$RIG_DIR/kernel/6.1/release")" ] ||
		die "the tree has kernel $release and the rig's headers are for $(cat "$RIG_DIR/kernel/6.1/release"): run tests/rig/fetch.sh 6.1 again"
	install -D -m 644 "$BOOT/rival/nvidia.ko" "$tree/lib/modules/$release/extra/nvidia.ko"
	printf 'UUID=%s / ext4 rw 0 1\n' "$ROOT_UUID" >"$tree/etc/fstab"
	echo "$MACHINE_ID" >"$tree/etc/machine-id"
	chroot "$tree" depmod "$release"
}

bios() {
	local tree=$1 release
	debian "$tree" "$COMMON,initramfs-tools,grub-pc-bin,grub2-common,busybox" etc/initramfs-tools/conf.d/boot-test $'MODULES=list\nCOMPRESS=gzip'
	common "$tree"
	release=$(ls "$tree/lib/modules")
	printf '%s\n' virtio_pci virtio_blk ext4 >>"$tree/etc/initramfs-tools/modules"
	install -m 755 /dev/stdin "$tree/etc/initramfs-tools/hooks/rival" <<-'HOOK'
		#!/bin/sh
		[ "$1" = prereqs ] && exit 0
		. /usr/share/initramfs-tools/hook-functions
		manual_add_modules nvidia
	HOOK
	install -D -m 644 "$tree/usr/share/grub/default/grub" "$tree/etc/default/grub"
	sed -i 's/^GRUB_TIMEOUT=.*/GRUB_TIMEOUT=0/; s/^GRUB_CMDLINE_LINUX=.*/GRUB_CMDLINE_LINUX="console=ttyS0 panic=5"/' "$tree/etc/default/grub"
	mkdir -p "$tree/boot/grub/i386-pc"
	cp "$tree"/usr/lib/grub/i386-pc/*.{mod,lst} "$tree/boot/grub/i386-pc/"
	chroot "$tree" update-initramfs -u -k "$release" >"$tree.log" 2>&1 || die "update-initramfs failed: see $tree.log"
	# For the first boot only, which has the real update-grub write the real one.
	cat >"$tree/boot/grub/grub.cfg" <<-CFG
		serial --unit=0
		terminal_output serial
		search --no-floppy --fs-uuid --set=root $ROOT_UUID
		linux /boot/vmlinuz-$release root=UUID=$ROOT_UUID ro console=ttyS0 quiet panic=5
		initrd /boot/initrd.img-$release
		boot
	CFG
	chroot "$tree" grub-mkimage -O i386-pc -p '(hd0,msdos1)/boot/grub' -o /core.img biosdisk part_msdos ext2 \
		normal configfile search search_fs_uuid linux serial terminal echo test loadenv sleep halt reboot minicmd
	mv "$tree/core.img" "$BOOT/core.img"
}

uefi() {
	local tree=$1 release
	debian "$tree" "$COMMON,dracut,systemd,systemd-boot,systemd-boot-efi" etc/dracut.conf.d/10-boot-test.conf "$DRACUT"
	common "$tree"
	release=$(ls "$tree/lib/modules")
	printf 'root=UUID=%s ro console=ttyS0 quiet panic=5\n' "$ROOT_UUID" >"$tree/etc/kernel/cmdline"
	chroot "$tree" dracut --force "/boot/initrd.img-$release" "$release" >"$tree.log" 2>&1 || die "dracut failed: see $tree.log"
	mkdir -p "$tree/efi"
	mount -t tmpfs tmpfs "$tree/efi"
	# shellcheck disable=SC2064 # The tree is known now.
	trap "umount '$tree/efi' '$tree/proc' 2>/dev/null || true" EXIT
	mount --bind /proc "$tree/proc"
	{
		chroot "$tree" env SYSTEMD_RELAX_ESP_CHECKS=1 bootctl install --esp-path=/efi --no-variables --make-entry-directory=yes
		chroot "$tree" env BOOT_ROOT=/efi kernel-install add "$release" "/boot/vmlinuz-$release" "/boot/initrd.img-$release"
	} >>"$tree.log" 2>&1 || die "bootctl or kernel-install failed: see $tree.log"
	printf 'timeout 0\n' >"$tree/efi/loader/loader.conf"
	mkdir -p "$tree.esp"
	cp -r "$tree"/efi/. "$tree.esp/"
	umount "$tree/efi" "$tree/proc"
	trap - EXIT
	[ -n "$(find "$tree.esp/loader/entries" -name '*.conf')" ] || die "kernel-install wrote no entry: see $tree.log"
}

rival() {
	local kernel=$RIG_DIR/kernel/6.1 into=$1
	cp "$BOOT_SOURCE"/rival/* "$into/"
	make -C "$kernel/headers" M="$into" "CC=$kernel/tools/gcc" "LD=$kernel/tools/ld" "AR=$kernel/tools/ar" "NM=$kernel/tools/nm" \
		"OBJCOPY=$kernel/tools/objcopy" "OBJDUMP=$kernel/tools/objdump" "READELF=$kernel/tools/readelf" "STRIP=$kernel/tools/strip" \
		"HOSTCC=$kernel/tools/gcc" CONFIG_DEBUG_INFO_BTF_MODULES= CONFIG_PAHOLE_VERSION=0 modules >"$into/log" 2>&1 ||
		{ cat "$into/log" >&2; die "the rival does not build"; }
}

part() {
	local key
	key=$(fingerprint "$BOOT_SOURCE"/{tree,lib}.sh "$BOOT_SOURCE"/rival/* "$RIG_DIR/kernel/6.1/release")
	if fresh "boot-$1" "$key"; then return; fi
	say "making the boot test's $1"
	rm -rf "${BOOT:?}/$1" "$BOOT/$1.esp" "$BOOT/$1.first"
	mkdir -p "$BOOT/$1"
	"$2" "$BOOT/$1"
	stamp "boot-$1" "$key"
}

main() {
	[ "$(id -u)" = 0 ] || die "the boot test makes its trees in a chroot and needs root"
	need perl
	need make
	"$RIG_SOURCE/fetch.sh" qemu 6.1
	need_apt
	locked boot
	part host tools
	part rival rival
	[ $# -gt 0 ] || set -- bios uefi
	for machine in "$@"; do part "$machine" "$machine"; done
}
main "$@"
