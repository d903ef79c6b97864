#!/usr/bin/env bash
# run.sh WHAT [RIG-OPTION...]: the rig's jobs, each fetching and building what it lacks.
#   smoke    the rig itself: parking, probe rules, background, sleep; and that the judge can fail
#   main     the main job of tests/e2e on the stand-in: both kernels, both parkers
#   nvidia   the same on NVIDIA's own 470 module
#   modules  the modules for every kernel, the newest included
. "$(dirname "$0")/lib/common.sh"

boot() { "$REPO/target/${RIG_PROFILE_DIR:-debug}/rig" --rig "$RIG_DIR" "$@"; }

prepare() {
	"$RIG_SOURCE/fetch.sh" qemu guest "$@"
	"$RIG_SOURCE/modules.sh" "$@"
	(cd "$REPO" && cargo build --quiet --package slot-rig --bin rig)
}

smoke() {
	prepare 6.1 6.12
	boot "$@" -- "$RIG_SOURCE/smoke.sh"
	boot --iommu --kernel 6.12 "$@" -- "$RIG_SOURCE/smoke.sh"
	say "a judge that can't fail is none: now a sequence that it must find"
	boot --quiet --expect-findings "$@" -- "$RIG_SOURCE/smoke.sh" bad
}

main() {
	local what=${1:-}
	[ -z "$what" ] || shift
	case $what in
	smoke) smoke "$@" ;;
	modules) "$RIG_SOURCE/modules.sh" "$@" ;;
	*)
		sed -n '2,/^\./s/^# \{0,1\}//p' "$0" >&2
		exit 2
		;;
	esac
}
main "$@"
