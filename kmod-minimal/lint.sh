#!/bin/sh
# lint.sh KDIR [TOOLS]: checkpatch over the module's sources, then a build with
# all warnings and sparse; any word of either is a failure. TOOLS is a folder
# that lint-tools.sh filled; without it both are expected in PATH.
set -eu

kdir=${1:?usage: lint.sh KDIR [TOOLS]}
kdir=$(cd "$kdir" && pwd)
[ -z "${2:-}" ] || PATH=$(cd "$2" && pwd):$PATH
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

style() {
	ignore=$1
	shift
	perl "$(command -v checkpatch.pl)" --no-tree --strict --terse --quiet \
		--ignore "$ignore" --file "$@"
}

# Not for a module that is built against many kernels, nor for a UAPI header
style LINUX_VERSION_CODE,CONSTANT_COMPARISON,BIT_MACRO,MACRO_ARG_REUSE,MULTISTATEMENT_MACRO_USE_DO_WHILE \
	"$here"/*.c "$here"/slotwin.h "$here"/slotwin-core.h
# The tracing macros have a style of their own
style OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT "$here/slotwin_trace.h"

make -s KDIR="$kdir" OUT="$out" KFLAGS="W=1 C=2" > "$out/log" 2>&1 || {
	cat "$out/log" >&2
	exit 1
}
if grep -E "warning:|error:" "$out/log" | grep -v "compiler differs\|pahole"; then
	exit 1
fi
