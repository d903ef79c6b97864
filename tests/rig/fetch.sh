#!/usr/bin/env bash
# fetch.sh [PART...]: gets what the rig is made of, as Debian packages from the mirror that this
# machine's apt is configured for. Installs nothing, needs no root. Parts: qemu guest 6.1 6.12
# newest; all of them without arguments. A part that is there already costs nothing.
. "$(dirname "$0")/lib/common.sh"
. "$RIG_SOURCE/lib/apt.sh"

qemu() {
	apt_set qemu main trixie trixie-backports
	unpack "$1" install {qemu-system-x86,qemu-system-common,qemu-system-data,seabios}/trixie-backports
	local run=$RIG_DIR/qemu-system-x86_64
	printf '#!/bin/sh\nexec %q --library-path %q %q -L %q -L %q "$@"\n' "$(loader "$1")" "$(libraries "$1")" \
		"$1/usr/bin/qemu-system-x86_64" "$1/usr/share/qemu" "$1/usr/share/seabios" >"$run"
	chmod +x "$run"
	"$run" -device help 2>/dev/null | grep -q '"vfio-user-pci"' ||
		die "$("$run" --version | head -n 1) has no vfio-user-pci: the rig needs QEMU 10.1 or newer"
}

# What runs in the guest beside our own programs. Each dynamic program keeps its own loader and
# libraries, so that it does not meet those of this machine.
guest() {
	local tree=$1/tree lib program
	apt_set bookworm main bookworm bookworm-security
	unpack "$tree" install busybox-static kmod pciutils
	mkdir -p "$1/bin" "$1/lib"
	cp "$tree/bin/busybox" "$1/bin/busybox"
	cp "$(loader "$tree")" "$1/lib/ld.so"
	for program in bin/kmod usr/bin/lspci usr/bin/setpci; do
		cp "$tree/$program" "$1/lib/"
		"$(loader "$tree")" --library-path "$(libraries "$tree")" --list "$tree/$program" | awk '$3 ~ /^\// { print $3 }' |
			while read -r lib; do cp -L "$lib" "$1/lib/"; done
	done
	for program in lsmod modprobe insmod rmmod modinfo depmod lspci setpci; do
		local file=kmod
		case $program in lspci | setpci) file=$program ;; esac
		cat >"$1/bin/$program" <<-SCRIPT
			#!/bin/sh
			h=\$(dirname "\$(readlink -f "\$0")")/../lib
			exec "\$h/ld.so" --argv0 $program --library-path "\$h" "\$h/$file" "\$@"
		SCRIPT
		chmod +x "$1/bin/$program"
	done
	cp -L "$tree/usr/share/misc/pci.ids" "$1/lib/pci.ids" 2>/dev/null || true
	rm -rf "$tree"
}

# headers DIRECTORY: headers of the kernel that the set's linux-headers-amd64 stands for, with the
# compiler that it was built by, ready for `make KDIR=...`.
headers() {
	local root=$1/root meta=${2:-linux-headers-amd64} abi gcc tool
	unpack "$root" install "$meta"
	abi=$(cd "$root/usr/src" && printf '%s\n' linux-headers-*-amd64)
	[ -d "$root/usr/src/$abi" ] || die "$meta brought no headers: $(ls "$root/usr/src")"
	printf '%s\n' "${abi#linux-headers-}" >"$1/release"
	gcc=$(cd "$root/usr/bin" && printf '%s\n' x86_64-linux-gnu-gcc-* | grep -E -- '-gcc-[0-9]+$' | sort -t- -k5 -n | tail -n 1)
	[ -n "$gcc" ] || die "$meta brought no compiler"
	tools "$root" "$1/tools" "$gcc"
	# Debian's headers point at /usr/src and /usr/lib: make them point into the unpacked tree.
	grep -rlE '(^|[^[:alnum:]$/])/usr/(src|lib)/linux-' "$root/usr/src/$abi" --include=Makefile --include='*.mk' 2>/dev/null |
		while read -r tool; do sed -i -E "s,(^|[^[:alnum:]\$/])/usr/(src|lib)/linux-,\1$root/usr/\2/linux-,g" "$tool"; done
	for tool in scripts tools; do
		[ ! -L "$root/usr/src/$abi/$tool" ] ||
			ln -sfn "$root/usr/lib/$(basename "$(dirname "$(readlink "$root/usr/src/$abi/$tool")")")/$tool" "$root/usr/src/$abi/$tool"
	done
	ln -sfn "$root/usr/src/$abi" "$1/headers"
	wrap_elves "$root" "$root"/usr/lib/linux-kbuild-*
}

# tools ROOT INTO GCC: the unpacked compiler and binutils as programs that run anywhere.
tools() {
	local root=$1 into=$2 program backend
	mkdir -p "$into/backend"
	backend=$(find "$root/usr" -path '*/gcc/*' -name cc1 -print -quit)
	[ -n "$backend" ] || die "the unpacked $3 has no cc1"
	for program in cc1 collect2 lto1 lto-wrapper; do
		[ ! -x "$(dirname "$backend")/$program" ] || wrapper "$root" "$(dirname "$backend")/$program" "$into/backend/$program"
	done
	for program in as ld ld.bfd ar nm objcopy objdump readelf strip; do
		wrapper "$root" "$root/usr/bin/x86_64-linux-gnu-$program" "$into/backend/$program"
		ln -sfn "backend/$program" "$into/$program"
	done
	wrapper "$root" "$root/usr/bin/$3" "$into/gcc" -B "$into/backend"
}

# wrapper ROOT PROGRAM AS ARGUMENT...: a script AS that runs PROGRAM with ROOT's loader.
wrapper() {
	local root=$1 program=$2 as=$3
	shift 3
	{
		printf '#!/bin/sh\nexec %q --library-path %q --argv0 %q %q' "$(loader "$root")" "$(libraries "$root")" "$program" "$program"
		[ $# = 0 ] || printf ' %q' "$@"
		printf ' "$@"\n'
	} >"$as"
	chmod +x "$as"
}

# wrap_elves ROOT DIRECTORY...: programs that the kernel's own build runs (fixdep, modpost, objtool).
wrap_elves() {
	local root=$1 elf real
	shift
	find "$@" -type f -perm -u+x | sort | while read -r elf; do
		[ "$(head -c 4 "$elf" | tail -c 3)" = ELF ] || continue
		# Older kbuild packages choose by a program that looks for its siblings beside itself.
		for real in "$elf.real-lsb-64" "$elf.real-x86"; do
			if [ -e "$real" ]; then
				ln -sf "$(basename "$real")" "$elf"
				continue 2
			fi
		done
		mv "$elf" "$elf.elf"
		wrapper "$root" "$elf.elf" "$elf"
	done
}

# kernel DIRECTORY: image and modules of the set's linux-image-amd64, and its headers.
kernel() {
	local image tree=$1/image
	headers "$1"
	image=$(depends_like linux-image-amd64 '^linux-image-[0-9].*-amd64$')
	[ "${image#linux-image-}" = "$(cat "$1/release")" ] || die "$image and the headers of $(cat "$1/release") differ: the mirror is between two states, try again later"
	unpack "$tree" download "$image"
	cp "$tree"/boot/vmlinuz-* "$1/vmlinuz"
	cp "$tree"/boot/config-* "$1/config"
	mkdir -p "$1/lib/modules"
	mv "$(find "$tree" -type d -path "*lib/modules/$(cat "$1/release")")" "$1/lib/modules/"
	rm -rf "$tree"
	"$RIG_DIR/guest/bin/depmod" -b "$1" "$(cat "$1/release")"
}

kernel_6_1() {
	apt_set bookworm main bookworm bookworm-security
	kernel "$1"
}
kernel_6_12() {
	apt_set trixie main trixie trixie-security
	kernel "$1"
}

# The newest headers that Debian carries anywhere and that can be had with all they need.
kernel_newest() {
	local version suite
	apt_set newest main sid trixie-backports experimental
	while read -r version suite; do
		# Its suite goes first for the whole chain: the parts of a kernel fit each other only.
		APT_OPTIONS+=(-o "APT::Default-Release=$suite")
		if apt-get "${APT_OPTIONS[@]}" -qq --simulate install linux-headers-amd64 >/dev/null 2>&1; then
			headers "$1"
			return
		fi
		say "linux-headers-amd64 $version ($suite) can't be had with all it needs just now, trying the one before"
	done < <(apt-cache "${APT_OPTIONS[@]}" madison linux-headers-amd64 | awk '{ split($6, suite, "/"); print $3, suite[1] }' | sort -urV)
	die "Debian's sid, trixie-backports and experimental carry no kernel headers that can be had"
}

# part NAME FUNCTION DIRECTORY: makes a part anew unless it was made by these very scripts.
part() {
	local key
	key=$(fingerprint "$RIG_SOURCE/fetch.sh" "$RIG_SOURCE/lib/apt.sh")-$RIG_DIR
	if fresh "$1" "$key"; then return; fi
	say "fetching $1"
	need_apt
	rm -rf "$3"
	mkdir -p "$3"
	"$2" "$3"
	stamp "$1" "$key"
}

main() {
	local name
	locked fetch
	[ $# -gt 0 ] || set -- qemu guest 6.1 6.12 newest
	for name in "$@"; do
		case $name in
		6.1 | 6.12) part guest guest "$RIG_DIR/guest" ;;
		esac
		case $name in
		qemu) part qemu qemu "$RIG_DIR/qemu" ;;
		guest) part guest guest "$RIG_DIR/guest" ;;
		6.1) part 6.1 kernel_6_1 "$RIG_DIR/kernel/6.1" ;;
		6.12) part 6.12 kernel_6_12 "$RIG_DIR/kernel/6.12" ;;
		newest) part newest kernel_newest "$RIG_DIR/kernel/newest" ;;
		*) die "there is no part \`$name\`: qemu guest 6.1 6.12 newest" ;;
		esac
	done
}
main "$@"
