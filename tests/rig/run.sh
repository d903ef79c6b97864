#!/usr/bin/env bash
# run.sh JOB [OPTION...]: the rig's jobs; each fetches and builds what it lacks.
#   smoke             the rig itself: parking, probe rules, background, sleep; and a judge that can fail
#   window            the window module by hand: sixteen adoptions, warm swaps; both kernels and parkers
#   main              the main job of tests/e2e with slotd, on the stand-in; both kernels and parkers
#   nvidia            the same on NVIDIA's own 470 module
#   all               smoke, main and profiles
#   lint              checkpatch and sparse over the window module, and that it builds everywhere
#   profiles          every other profile boots and swaps
#   modules           the modules for every kernel, the newest included
# Options of `rig` for every boot come from RIG_OPTIONS, e.g. RIG_OPTIONS="--quiet --bin target/debug/slotd".
. "$(dirname "$0")/lib/common.sh"

read -r -a OPTIONS <<<"${RIG_OPTIONS:-}"
TARGET=${CARGO_TARGET_DIR:-$REPO/target}/debug

boot() { "$TARGET/rig" --rig "$RIG_DIR" "${OPTIONS[@]}" "$@"; }

prepare() {
	need cargo rustup
	"$RIG_SOURCE/fetch.sh" qemu guest "$@"
	"$RIG_SOURCE/modules.sh" "$@"
	(cd "$REPO" && cargo build --quiet --package slot-rig --bin rig)
}

# The program that speaks to slotwin by hand, static so that it runs in any guest.
try() {
	need cc gcc
	mkdir -p "$RIG_DIR/bin"
	cc -D_GNU_SOURCE -O1 -static -o "$RIG_DIR/bin/slotwin-try" "$REPO/kmod-minimal/test/slotwin-try.c"
}

smoke() {
	prepare 6.1 6.12
	boot -- "$RIG_SOURCE/smoke.sh"
	boot --iommu --kernel 6.12 -- "$RIG_SOURCE/smoke.sh"
	say "a judge that can't fail is none: now a sequence in which it must find something"
	boot --quiet --expect-findings -- "$RIG_SOURCE/smoke.sh" bad
}

window() {
	prepare 6.1 6.12
	try
	boot --bin "$RIG_DIR/bin/slotwin-try" -- "$RIG_SOURCE/slotwin.sh"
	boot --iommu --kernel 6.12 --bin "$RIG_DIR/bin/slotwin-try" -- "$RIG_SOURCE/slotwin.sh"
}

# The scenario as it runs in a guest: physical memory is read and written there, and ports may sleep
# as early as they can.
scenario() {
	(cd "$REPO" && cargo build --quiet --package slotd --package slot-e2e --bins)
	boot --timeout 600 --append "iomem=relaxed pcie_port_pm=force" --bin "$TARGET/slotd" "$@"
}

main_job() {
	prepare 6.1 6.12
	# A normal GPU beside the dies has nvidia loaded at boot; without one the first acquire loads it.
	scenario -- "$TARGET/slot-scenario" run --neighbour 10de:1eb8
	scenario --iommu --kernel 6.12 --no-neighbour -- "$TARGET/slot-scenario" run
}

# There is no video BIOS in the rig, so that 470 binds but no adapter comes up.
nvidia() {
	prepare 6.1
	"$RIG_SOURCE/nvidia.sh"
	scenario --nvidia real --env SLOTD_OPTIONS=--no-hold -- \
		"$TARGET/slot-scenario" run --neighbour 10de:1eb8
}

lint() {
	local tools=$RIG_DIR/kernel/6.1/tools
	"$RIG_SOURCE/modules.sh"
	sh "$REPO/kmod-minimal/lint-tools.sh" "$RIG_DIR/lint"
	MAKEFLAGS="CC=$tools/gcc LD=$tools/ld AR=$tools/ar NM=$tools/nm OBJCOPY=$tools/objcopy" \
		sh "$REPO/kmod-minimal/lint.sh" "$RIG_DIR/kernel/6.1/headers" "$RIG_DIR/lint"
}

profiles() {
	local profile
	prepare 6.1
	try
	for profile in win48 roomy office; do
		boot --profile "$profile" --bin "$RIG_DIR/bin/slotwin-try" -- "$RIG_SOURCE/slotwin.sh" 20
	done
}

main() {
	local job=${1:-}
	[ $# = 0 ] || shift
	case $job in
	smoke | window | profiles | nvidia) "$job" ;;
	main) main_job ;;
	all)
		smoke
		main_job
		profiles
		;;
	lint) lint ;;
	modules) "$RIG_SOURCE/modules.sh" "$@" ;;
	*)
		sed -n '2,/^\./s/^# \{0,1\}//p' "$0" >&2
		exit 2
		;;
	esac
}
main "$@"
