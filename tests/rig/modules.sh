#!/usr/bin/env bash
# modules.sh [KERNEL...]: builds slotwin.ko and the stand-in nvidia.ko for the rig's kernels
# (6.1 6.12 newest; all without arguments) into .rig/modules/KERNEL. The newest is never booted:
# it is there to see that the modules build. A warning is an error.
. "$(dirname "$0")/lib/common.sh"

# build KERNEL SOURCE: copies SOURCE aside (so that kernels do not step on each other) and builds it.
build() {
	local kernel=$RIG_DIR/kernel/$1 source=$2 into=$RIG_DIR/modules/$1 work log
	work=$into/build/$(basename "$source")
	log=$work.log
	rm -rf "$work"
	mkdir -p "$work"
	cp "$source"/*.[ch] "$source"/Kbuild "$work/"
	# Types for BPF would want vmlinux, which the headers have not.
	if ! make -C "$kernel/headers" M="$work" "CC=$kernel/tools/gcc" "LD=$kernel/tools/ld" \
		"AR=$kernel/tools/ar" "NM=$kernel/tools/nm" "OBJCOPY=$kernel/tools/objcopy" \
		"OBJDUMP=$kernel/tools/objdump" "READELF=$kernel/tools/readelf" "STRIP=$kernel/tools/strip" \
		"HOSTCC=$kernel/tools/gcc" CONFIG_DEBUG_INFO_BTF_MODULES= CONFIG_PAHOLE_VERSION=0 -j"$(nproc)" modules >"$log" 2>&1; then
		cat "$log" >&2
		die "$source does not build for $(cat "$kernel/release")"
	fi
	if grep -i warning "$log"; then
		die "$source builds with warnings for $(cat "$kernel/release"): see $log"
	fi
	cp "$work"/*.ko "$into/"
}

main() {
	local kernel source name key
	need make
	[ $# -gt 0 ] || set -- 6.1 6.12 newest
	"$RIG_SOURCE/fetch.sh" "$@"
	locked modules
	for kernel in "$@"; do
		for source in "$REPO/kmod-minimal" "$RIG_SOURCE/nvidia-standin"; do
			name=$kernel-$(basename "$source")
			key=$(fingerprint "$source"/*.[ch] "$source/Kbuild" "$RIG_DIR/kernel/$kernel/release" "$RIG_SOURCE/modules.sh")
			if fresh "module-$name" "$key"; then continue; fi
			say "building $(basename "$source") for $(cat "$RIG_DIR/kernel/$kernel/release")"
			build "$kernel" "$source"
			stamp "module-$name" "$key"
		done
	done
}
main "$@"
