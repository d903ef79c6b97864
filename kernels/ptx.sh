#!/bin/bash
# ptx.sh make    regenerate kernels/ptx/*.ptx from kernels/cu/*.cu
# ptx.sh check   prove that the committed PTX comes from the source and assembles for sm_37
#
# The compiler is NVRTC 11.2 and the assembler its ptxas: the newest in Debian that still know sm_37
# and emit PTX that driver 470 takes. Both are fetched from Debian's non-free section when needed,
# checked against their sums, and kept outside of the tree's committed files. Nothing is installed.
set -euo pipefail
cd "$(dirname "$0")"

readonly MODE=${1:-check}
readonly CACHE=${PTX_CACHE:-$PWD/../.rig/ptx}
readonly SUITE=bullseye
# name=version, file and sum of what is fetched
readonly NVRTC="libnvrtc11.2=11.2.152~11.2.2-3+deb11u3"
readonly NVRTC_SUM=335b32bb91ff2ec5a2bfa6c336d8626d61f62ca8e1cd9fa554d1a899d4ccf8b7
readonly TOOLKIT="nvidia-cuda-toolkit=11.2.2-3+deb11u3"
readonly TOOLKIT_SUM=d6dda1647ca72d6c5f601b21355c631aba9849ae99cc3cfa14a7e6796eae4cb8
# The highest PTX that driver 470 (CUDA 11.4) takes.
readonly NEWEST_PTX=7.4

die() {
	echo "ptx.sh: $*" >&2
	exit 1
}

# The Debian mirror that this machine already uses, or DEBIAN_MIRROR where it uses none.
mirror() {
	local uri=${DEBIAN_MIRROR:-}
	# shellcheck disable=SC2016 # apt fills it in
	[ -n "$uri" ] || uri=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Created-By: Packages' |
		grep -v security | head -1 || true)
	[ -n "$uri" ] || uri=$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null | head -1 || true)
	[ -n "$uri" ] || die "apt knows no Debian mirror here: set DEBIAN_MIRROR to one"
	echo "${uri% }"
}

# fetch FOLDER: both packages, by an apt with its own lists, so that the machine's stay as they are.
fetch() {
	local at=$1 key=/usr/share/keyrings/debian-archive-keyring.gpg signed=
	[ ! -e "$key" ] || signed="[signed-by=$key]"
	mkdir -p "$at/lists/partial" "$at/cache/archives/partial"
	echo "deb $signed $(mirror) $SUITE non-free" >"$at/sources.list"
	local apt=(apt-get -q -o "Dir::State::Lists=$at/lists" -o "Dir::Cache=$at/cache"
		-o "Dir::Etc::SourceList=$at/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o Acquire::Languages=none -o APT::Sandbox::User=root)
	"${apt[@]}" update >&2
	(cd "$at" && "${apt[@]}" download "$NVRTC" "$TOOLKIT") >&2
	(cd "$at" && sha256sum --check --quiet - <<-SUMS) || die "a fetched package is not the one expected"
		$NVRTC_SUM  $(basename "$at"/libnvrtc*.deb)
		$TOOLKIT_SUM  $(basename "$at"/nvidia-cuda-toolkit*.deb)
	SUMS
	local package
	for package in "$at"/*.deb; do
		dpkg-deb --fsys-tarfile "$package" |
			tar -x -C "$at" --wildcards --no-anchored 'libnvrtc*.so*' ptxas 2>/dev/null || true
	done
	rm -rf "$at"/*.deb "$at/lists" "$at/cache"
}

# The tools, fetched once; another run that is fetching at the same time is waited for.
tools() {
	mkdir -p "$CACHE"
	exec 9>"$CACHE/lock"
	flock 9
	if [ ! -x "$CACHE/tools/usr/bin/ptxas" ]; then
		rm -rf "$CACHE/new" "$CACHE/tools"
		mkdir "$CACHE/new"
		fetch "$CACHE/new"
		[ -x "$CACHE/new/usr/bin/ptxas" ] || die "the fetched packages hold no ptxas"
		mv "$CACHE/new" "$CACHE/tools"
	fi
	exec 9>&-
}

# names FOLDER ENDING: of the files in it.
names() {
	find "$1" -name "*.$2" -printf '%f\n' | sort
}

# compile OUT: every source to OUT/NAME.ptx.
compile() {
	local libs=$CACHE/tools/usr/lib/x86_64-linux-gnu source
	for source in cu/*.cu; do
		LD_LIBRARY_PATH=$libs python3 ptx/compile.py "$libs/libnvrtc.so.11.2" "$source" \
			"$1/$(basename "$source" .cu).ptx"
	done
}

# assemble FILE: the version and target are what driver 470 and a K80 take, and ptxas agrees.
assemble() {
	local version
	version=$(sed -n 's/^\.version //p' "$1")
	[ "$(printf '%s\n' "$version" "$NEWEST_PTX" | sort -V | tail -1)" = "$NEWEST_PTX" ] ||
		die "$1 is PTX $version: driver 470 takes $NEWEST_PTX at the most"
	grep -qx '.target sm_37' "$1" || die "$1 is not for sm_37"
	"$CACHE/tools/usr/bin/ptxas" -arch=sm_37 --verbose --output-file "$2" "$1" 2>&1 |
		sed -n "s|.*Used|$1: PTX $version, used|p"
}

[ "$(uname -m)" = x86_64 ] || die "NVRTC 11.2 is there for x86_64 only"
tools
case $MODE in
make)
	compile ptx
	sha256sum ptx/*.ptx
	;;
check)
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	compile "$work"
	[ "$(names "$work" ptx)" = "$(names ptx ptx)" ] ||
		die "kernels/cu and kernels/ptx do not hold the same names: run make ptx"
	for new in "$work"/*.ptx; do
		cmp "$new" "ptx/$(basename "$new")" || die "the PTX is not what the source gives: run make ptx"
		assemble "ptx/$(basename "$new")" "$work/cubin"
	done
	;;
*)
	die "usage: ptx.sh make|check"
	;;
esac
