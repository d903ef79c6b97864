#!/usr/bin/env bash
# nvidia.sh: fetches the source of NVIDIA's 470 driver as Debian packages it (non-free, never
# committed) and builds its module `nvidia` for the rig's 6.1 kernel, into .rig/nvidia/6.1.
. "$(dirname "$0")/lib/common.sh"
. "$RIG_SOURCE/lib/apt.sh"

KERNEL=6.1

# The newest package that carries the 470 series' kernel source.
package() {
	apt-cache "${APT_OPTIONS[@]}" search --names-only '^nvidia.*-kernel-source$' | awk '{ print $1 }' |
		while read -r name; do
			apt-cache "${APT_OPTIONS[@]}" madison "$name" | awk -v name="$name" '$3 ~ /^470\./ { print $3, name }'
		done | sort -V | tail -n 1 | awk '{ print $2 "=" $1 }'
}

main() {
	local kernel=$RIG_DIR/kernel/$KERNEL into=$RIG_DIR/nvidia/$KERNEL source log key name tools headers
	"$RIG_SOURCE/fetch.sh" "$KERNEL"
	locked nvidia
	key=$(fingerprint "$RIG_SOURCE/nvidia.sh" "$RIG_SOURCE/lib/apt.sh" "$kernel/release")
	if fresh nvidia "$key"; then return; fi
	need_apt
	need make
	apt_set nvidia "main contrib non-free non-free-firmware" bookworm bookworm-security
	name=$(package)
	[ -n "$name" ] || die "Debian's bookworm carries no kernel source of the 470 series any more"
	say "fetching $name"
	rm -rf "$into"
	mkdir -p "$into"
	unpack "$into/source" download "$name"
	source=$(dirname "$(find "$into/source" -name dkms.conf -o -name Kbuild | sort | head -n 1)")
	if [ ! -e "$source/Kbuild" ]; then
		# Some packages carry the source as an archive.
		tar -x -C "$into/source" -f "$(find "$into/source" -name '*.tar.xz' | head -n 1)"
		source=$(dirname "$(find "$into/source" -name Kbuild | sort | head -n 1)")
	fi
	log=$into/build.log
	say "building NVIDIA's module for $(cat "$kernel/release"), about a minute"
	tools=$kernel/tools
	# Its conftest wants the common headers as source and the flavour's as output.
	headers=$(readlink -f "$kernel/headers")
	make -C "$source" SYSSRC="${headers%-amd64}-common" SYSOUT="$headers" \
		NV_KERNEL_MODULES=nvidia NV_EXCLUDE_KERNEL_MODULES="nvidia-uvm nvidia-modeset nvidia-drm nvidia-peermem" \
		CC="$tools/gcc" LD="$tools/ld" AR="$tools/ar" NM="$tools/nm" OBJCOPY="$tools/objcopy" OBJDUMP="$tools/objdump" \
		HOSTCC="$tools/gcc" IGNORE_CC_MISMATCH=1 -j"$(nproc)" modules >"$log" 2>&1 ||
		{
			tail -n 40 "$log" >&2
			die "NVIDIA's module does not build: see $log"
		}
	cp "$(find "$source" -name nvidia.ko | head -n 1)" "$into/nvidia.ko"
	rm -rf "$into/source"
	stamp nvidia "$key"
}
main "$@"
